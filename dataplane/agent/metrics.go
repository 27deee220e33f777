package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/metrics"
)

// defaultMetricsPort serves health and metrics until the FabricConfig is known,
// so that an agent that waits for the API server can be seen waiting.
const defaultMetricsPort = 9813

// directions are the names of a counter's directions.
var directions = [bpfgen.Directions]string{
	bpfgen.LaneIngress: "lane_ingress", bpfgen.LaneEgress: "lane_egress",
	bpfgen.OverlayIngress: "overlay_ingress", bpfgen.OverlayEgress: "overlay_egress",
}

// hostDirection counts what nftables dropped, at any device of the node.
const hostDirection = "host"

// setPort moves the metrics endpoint.
func (a *agent) setPort(port int) {
	select {
	case <-a.ports:
	default:
	}
	a.ports <- port
}

// serveMetrics serves on the port that was set last. A port that is taken
// costs the metrics, nothing else.
func (a *agent) serveMetrics(ctx context.Context, server *metrics.Server) error {
	port, stopped := defaultMetricsPort, make(chan struct{})
	serve := func() (stop context.CancelFunc) {
		inner, cancel := context.WithCancel(ctx)
		stopped = make(chan struct{})
		go func(done chan struct{}) {
			defer close(done)
			for inner.Err() == nil {
				if err := server.Run(inner, fmt.Sprintf(":%d", port)); err != nil && inner.Err() == nil {
					a.log.Error("metrics and health are not served, trying again; is another process on the port?", "port", port, "error", err)
				}
				sleep(inner, resyncInterval)
			}
		}(stopped)
		return cancel
	}
	stop := serve()
	for {
		select {
		case <-ctx.Done():
			<-stopped
			stop()
			return nil
		case next := <-a.ports:
			if next != port {
				stop()
				<-stopped
				port = next
				stop = serve()
			}
		}
	}
}

func (a *agent) metricsSources() metrics.Sources {
	return metrics.Sources{
		Counters: a.counters, Measurements: a.measurements, Maps: a.maps, Lanes: a.lanePeers, Ready: a.readiness,
	}
}

// counters of the programs and of the host's rules. What of them can be read is
// told even if the rest cannot.
func (a *agent) counters() ([]metrics.Counter, error) {
	programs, err := a.programCounters()
	host, hostErr := a.hostCounters()
	return append(programs, host...), errors.Join(err, hostErr)
}

// hostCounters are the drops of the nftables table, of any neighbor.
func (a *agent) hostCounters() ([]metrics.Counter, error) {
	drops, err := a.executor.HostDrops()
	if err != nil {
		return nil, fmt.Errorf("read the drops of the host's rules: %w", err)
	}
	var out []metrics.Counter
	for _, d := range drops {
		out = append(out, metrics.Counter{Direction: hostDirection, Reason: d.Reason, Packets: d.Packets, Bytes: d.Bytes})
	}
	return out, nil
}

func (a *agent) programCounters() ([]metrics.Counter, error) {
	cells, err := a.executor.Counters()
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	neighbors := map[uint16]string{}
	names := a.namesInForce()
	for _, l := range names.Links {
		neighbors[l.Link] = l.Neighbor
	}
	// Links to one neighbor, and links that are gone, add up to one series.
	type series struct{ neighbor, direction, reason string }
	at := map[series]int{}
	var out []metrics.Counter
	for _, c := range cells {
		if int(c.Direction) >= len(directions) {
			continue
		}
		key := series{neighbors[c.Link], directions[c.Direction], bpfgen.Reason(c.Reason).String()}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, metrics.Counter{Neighbor: key.neighbor, Direction: key.direction, Reason: key.reason})
		}
		out[i].Packets += c.Packets
		out[i].Bytes += c.Bytes
	}
	return out, nil
}

func (a *agent) maps() ([]metrics.MapFill, error) {
	fills, err := a.executor.Maps()
	if err != nil {
		return nil, fmt.Errorf("read map fill levels: %w", err)
	}
	var out []metrics.MapFill
	for _, f := range fills {
		out = append(out, metrics.MapFill{Map: f.Map, Entries: f.Entries, MaxEntries: f.MaxEntries})
	}
	return out, nil
}

func (a *agent) lanePeers() ([]metrics.LanePeer, error) {
	lanes, err := a.executor.Lanes()
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", err)
	}
	names := a.namesInForce()
	var out []metrics.LanePeer
	for _, lane := range lanes {
		for _, p := range lane.Peers {
			peer := metrics.LanePeer{Device: lane.Device, LastHandshake: p.LastHandshake, ReceivedBytes: p.ReceivedBytes, SentBytes: p.SentBytes}
			for _, l := range names.Links {
				if l.PublicKey == p.PublicKey {
					peer.Neighbor, peer.RemoteGateway = l.Neighbor, l.RemoteGateway
				}
			}
			out = append(out, peer)
		}
	}
	return out, nil
}
