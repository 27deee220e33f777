package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

// criterion is one thing that the demo promises.
type criterion struct {
	name, seen, wanted string
	met                bool
	// look says where to look when it is not met.
	look string
}

const (
	lookStatus   = "see `weftctl status` and the agents' counters (port 9813, /metrics)"
	lookIdle     = "run it on an idle machine, then profile weft-wireguard"
	lookPaths    = "see the paths in `weftctl status -o json` at a and b, and the agents' logs"
	failoverMax  = 1000.0 // milliseconds
	hubRTT       = 80.0
	hubRTTSlack  = 5.0
	directRTT    = 20.0
	directSlack  = 3.0
	transfersAll = 2

	lookServices = "see `weftctl status services` and `weftctl dns check`"
	// propagationMax of a changed endpoint, in milliseconds.
	propagationMax = 2000.0
)

// criteria judges the report.
func (d *demo) criteria() []criterion {
	r := d.report
	pairs := 2 * d.nodes * d.nodes * len(testbed.Triangle())
	return []criterion{
		count("ordered pairs tried", r.PairsTested, pairs, lookStatus),
		count("pairs whose TCP, UDP, ICMP and large UDP came back", r.PairsOK, r.PairsTested, lookStatus),
		count("pairs with the right source each time", r.SourcesOK, r.PairsTested, lookStatus),
		count(fmt.Sprintf("transfers of %d bytes verified, a-c", r.TransferBytes), r.TransfersVerified, transfersAll, lookStatus),
		{
			name: "round trip a-c", met: r.RTT > 0 && r.BareRTT > 0, look: lookStatus,
			seen: fmt.Sprintf("%.3f ms", r.RTT), wanted: fmt.Sprintf("bare WireGuard had %.3f ms", r.BareRTT),
		},
		{
			name: "TCP throughput a-c", met: r.Ratio >= d.leastRatio, look: lookIdle,
			seen:   fmt.Sprintf("%.0f Mbit/s, %.2f of bare WireGuard's", r.Throughput, r.Ratio),
			wanted: fmt.Sprintf("at least %.2f of %.0f", d.leastRatio, r.BareThroughput),
		},
		within("round trip a-b through c", r.HubRTT, hubRTT, hubRTTSlack),
		{
			name: "c forwards between a and b", met: r.HubPackets > 0 && r.HubTransit >= r.HubPackets, look: lookPaths,
			seen: fmt.Sprintf("%d packets", r.HubTransit), wanted: fmt.Sprintf("at least the %d sent", r.HubPackets),
		},
		{
			name: "numbered packets a second, each way", met: r.LeastRate >= 0.99*measure.Rate, look: lookIdle,
			seen: fmt.Sprintf("at least %.0f", r.LeastRate), wanted: fmt.Sprint(measure.Rate),
		},
		none("packets lost over the switch to the direct link", r.SwitchLost),
		within("round trip a-b directly", r.DirectRTT, directRTT, directSlack),
		none(fmt.Sprintf("packets that c forwarded while %d went directly", r.DirectPackets), r.DirectTransit),
		{
			name: "longest silence over a silent cut", met: r.Failover > 0 && r.Failover <= failoverMax, look: lookPaths,
			seen: fmt.Sprintf("%.0f ms", r.Failover), wanted: fmt.Sprintf("at most %.0f ms", failoverMax),
		},
		none("packets lost over the return to the direct link", r.RestoreLost),
		none("packets lost over the end of the direct link", r.RemovalLost),
		none("TCP connections reset", uint64(r.TCPResets)),
		{
			name: "TCP connections that carried every byte", met: r.Connections > 0 && r.TCPComplete == r.Connections, look: lookPaths,
			seen: fmt.Sprintf("%d, %d bytes", r.TCPComplete, r.TCPBytes), wanted: fmt.Sprint(r.Connections),
		},
		{
			name: "the service's name resolves in a and c as long as it is exported", met: r.DNSOK, look: lookServices,
			seen: yesOrNo(r.DNSOK), wanted: "yes",
		},
		{
			name: "new connections to the name answered, by every backend", look: lookServices,
			met:  r.ServiceCallsOK && r.ServiceCalls > 0 && r.ServiceAnswered == r.ServiceCalls,
			seen: fmt.Sprintf("%d, every backend: %s", r.ServiceAnswered, yesOrNo(r.ServiceCallsOK)), wanted: fmt.Sprint(r.ServiceCalls),
		},
		{
			name: "servers saw the callers' own addresses, translated", met: r.ServiceSourceOK, look: lookStatus,
			seen: yesOrNo(r.ServiceSourceOK), wanted: "yes",
		},
		{
			name: fmt.Sprintf("slowest of %d changes from endpoints in b to those in a and c", r.EndpointChanges), look: lookServices,
			met:  r.EndpointChanges >= changesAll && r.EndpointPropagation <= propagationMax,
			seen: fmt.Sprintf("%.0f ms", r.EndpointPropagation), wanted: fmt.Sprintf("at most %.0f ms, of %d", propagationMax, changesAll),
		},
	}
}

func count(name string, seen, wanted int, look string) criterion {
	return criterion{name: name, seen: fmt.Sprint(seen), wanted: fmt.Sprint(wanted), met: seen == wanted && seen > 0, look: look}
}

func none(name string, seen uint64) criterion {
	return criterion{name: name, seen: fmt.Sprint(seen), wanted: "0", met: seen == 0, look: lookPaths}
}

func yesOrNo(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}

// within compares milliseconds.
func within(name string, seen, wanted, slack float64) criterion {
	return criterion{
		name: name, met: math.Abs(seen-wanted) <= slack, look: lookPaths,
		seen: fmt.Sprintf("%.3f ms", seen), wanted: fmt.Sprintf("%.0f ± %.0f ms", wanted, slack),
	}
}

// verdict says what was promised and not met.
func (d *demo) verdict() error {
	var unmet []error
	for _, c := range d.criteria() {
		if !c.met {
			unmet = append(unmet, fmt.Errorf("%s: %s, wanted: %s; %s", c.name, c.seen, c.wanted, c.look))
		}
	}
	return errors.Join(unmet...)
}
