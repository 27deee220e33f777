// Package probe measures, over the data path itself, the paths of a gateway and
// the overlay between the nodes of a cluster. Probes are reflected in BPF by
// the far end, so an answer needs no process alive there.
//
// The verdicts are a pure state machine with an injected clock (track.go);
// sockets are a thin shell around it (socket.go, prober.go).
package probe

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Defaults of Options.
const (
	defaultInterval      = 100 * time.Millisecond
	defaultSlowInterval  = time.Second
	defaultBurstInterval = 20 * time.Millisecond
	defaultBudget        = 2000
)

// Options of a Prober. Zero values mean the defaults.
type Options struct {
	Log *slog.Logger
	// Interval between probes of a target that carries traffic.
	Interval time.Duration
	// SlowInterval between probes of a target that is Slow.
	SlowInterval time.Duration
	// BurstInterval is the pace from a first miss to the verdict, and the time
	// after which an unanswered probe of a burst is missed at the latest once
	// the path's round-trip time allows it.
	BurstInterval time.Duration
	// Port that probes are sent to (UDP).
	Port uint16
	// Budget is the number of probes per second over all targets; what exceeds
	// it is stretched evenly, never dropped for one target.
	Budget int
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.SlowInterval <= 0 {
		o.SlowInterval = defaultSlowInterval
	}
	if o.BurstInterval <= 0 {
		o.BurstInterval = defaultBurstInterval
	}
	if o.Port == 0 {
		o.Port = v1alpha1.ProbePort
	}
	if o.Budget <= 0 {
		o.Budget = defaultBudget
	}
	return o
}

// PathTarget is a path of this gateway. Both addresses are in wire form: host 0
// of the Node networks of this cluster (Source) and of the path's (Destination),
// as the rows of the link map them. A hub forwards such a probe like any packet.
type PathTarget struct {
	Link        uint16
	Device      string
	Source      netip.Addr
	Destination netip.Addr
	// MTU of the path in bytes at layer 3: one probe in a hundred is as large.
	// 0: none is padded.
	MTU int
	// Slow targets are probed at SlowInterval: those that traffic would not take
	// next.
	Slow bool
	// Cluster (by index) that the path leads to. It and the link name the path in
	// results.
	ClusterIndex int32
	// Cluster and Via are for the log.
	Cluster, Via string
}

// NodeTarget is another node of this cluster, reached over the overlay. Both
// addresses are fabric addresses.
type NodeTarget struct {
	Node string
	// GatewayID of the probed node, 0 for a plain node.
	GatewayID   int32
	Device      string
	Source      netip.Addr
	Destination netip.Addr
	// Slow targets are probed at SlowInterval: those that no traffic decision
	// depends on.
	Slow bool
}

// PathResult is what is known of a path.
type PathResult struct {
	Target PathTarget
	agent.Measurement
	// OuterFragments as the far end counts them.
	OuterFragments uint32
	// LargeLost reports that several padded probes in a row were not answered
	// while small ones are.
	LargeLost bool
}

// NodeResult is what is known of a node.
type NodeResult struct {
	Target NodeTarget
	agent.Measurement
	// Reach is the set of clusters that the node can reach, from its last
	// answer; zero while it is not Up.
	Reach bpfgen.BorderWeftReach
}

// Snapshot of all targets at one time, sorted by cluster index and link id, and
// by node name.
type Snapshot struct {
	Paths []PathResult
	Nodes []NodeResult
}
