package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// collector reads the sources at each scrape and keeps nothing.
type collector struct {
	sources Sources
}

// Describe says nothing: what there is to tell depends on the node's role.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect tells what the sources say, and of each whether it could be read.
func (c collector) Collect(out chan<- prometheus.Metric) {
	e := emitter{out}
	if c.sources.Counters != nil {
		counters, err := c.sources.Counters()
		e.source("counters", err)
		e.counters(counters)
	}
	if c.sources.Maps != nil {
		maps, err := c.sources.Maps()
		e.source("maps", err)
		e.maps(maps)
	}
	if c.sources.Lanes != nil {
		peers, err := c.sources.Lanes()
		e.source("lanes", err)
		e.lanes(peers)
	}
	if c.sources.Measurements != nil {
		e.measurements(c.sources.Measurements())
	}
}

// emitter turns values into metrics.
type emitter struct {
	out chan<- prometheus.Metric
}

type labels = prometheus.Labels

func (e emitter) value(kind prometheus.ValueType, name, help string, value float64, l labels) {
	desc := prometheus.NewDesc(name, help, nil, l)
	metric, err := prometheus.NewConstMetric(desc, kind, value)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	e.out <- metric
}

func (e emitter) gauge(name, help string, value float64, l labels) {
	e.value(prometheus.GaugeValue, name, help, value, l)
}

func (e emitter) counter(name, help string, value float64, l labels) {
	e.value(prometheus.CounterValue, name, help, value, l)
}

func (e emitter) source(name string, err error) {
	e.gauge("weft_source_up", "1 if the agent could read this source of metrics.", number(err == nil), labels{"source": name})
}

func (e emitter) counters(counters []Counter) {
	for _, c := range counters {
		l := labels{"neighbor": c.Neighbor, "direction": c.Direction, "reason": c.Reason}
		e.counter("weft_packets_total", "Packets by neighbor, hook and what became of them.", float64(c.Packets), l)
		e.counter("weft_bytes_total", "Bytes at L3 by neighbor, hook and what became of them.", float64(c.Bytes), l)
	}
}

func (e emitter) maps(maps []MapFill) {
	for _, m := range maps {
		l := labels{"map": m.Map}
		e.gauge("weft_map_entries", "Entries in a BPF map.", float64(m.Entries), l)
		e.gauge("weft_map_max_entries", "Entries that a BPF map can hold.", float64(m.MaxEntries), l)
	}
}

func (e emitter) lanes(peers []LanePeer) {
	for _, p := range peers {
		l := labels{"device": p.Device, "neighbor": p.Neighbor, "remote_gateway": id(p.RemoteGateway)}
		var handshake float64
		if !p.LastHandshake.IsZero() {
			handshake = float64(p.LastHandshake.UnixMilli()) / 1000
		}
		e.gauge("weft_lane_last_handshake_timestamp_seconds", "Unix time of the last WireGuard handshake, 0 if there was none.", handshake, l)
		e.counter("weft_lane_received_bytes_total", "Bytes received from a WireGuard peer.", float64(p.ReceivedBytes), l)
		e.counter("weft_lane_sent_bytes_total", "Bytes sent to a WireGuard peer.", float64(p.SentBytes), l)
	}
}

func (e emitter) measurements(m agent.Measurements) {
	for _, path := range m.Paths {
		l := labels{"cluster": path.Cluster, "via": path.Via, "own_gateway": id(path.OwnGateway), "remote_gateway": id(path.RemoteGateway)}
		e.measurement("weft_path", "path", path.Measurement, l)
		e.gauge("weft_path_active", "1 if this gateway sends to the cluster over the path.", number(path.Active), l)
		e.counter("weft_path_outer_fragments_total", "Fragmented outer packets that the far end has seen from the last tunnel of the path.", float64(path.OuterFragments), l)
		e.gauge("weft_path_large_lost", "1 if probes as large as the path's MTU get no answer while small ones do.", number(path.LargeLost), l)
	}
	for _, node := range m.Nodes {
		e.measurement("weft_node", "node over the overlay", node.Measurement, labels{"node": node.Name})
	}
	for _, cluster := range m.Clusters {
		l := labels{"cluster": cluster.Cluster}
		e.gauge("weft_cluster_gateways", "Own gateways in use towards a cluster.", float64(len(cluster.Gateways)), l)
	}
}

func (e emitter) measurement(prefix, what string, m agent.Measurement, l labels) {
	e.gauge(prefix+"_up", "1 if probes over the "+what+" are answered.", number(m.State == v1alpha1.PathUp), l)
	e.gauge(prefix+"_loss_ratio", "Share of unanswered probes over the "+what+", of the last 100.", float64(m.LossPermille)/1000, l)
	if m.RTTMicroseconds > 0 {
		e.gauge(prefix+"_rtt_seconds", "Smoothed round-trip time over the "+what+".", float64(m.RTTMicroseconds)/1e6, l)
		e.gauge(prefix+"_jitter_seconds", "Smoothed jitter over the "+what+".", float64(m.JitterMicroseconds)/1e6, l)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func id(n int32) string { return strconv.FormatInt(int64(n), 10) }
