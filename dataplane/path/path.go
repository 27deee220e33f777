// Package path decides, from what the probes saw, which way traffic takes: a
// pure function that returns the map words to write. Time is an argument.
package path

import (
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// Input is what a choice depends on.
type Input struct {
	Now time.Time
	// Self is this node's gateway id, 0 on a plain node.
	Self uint8
	// Clusters are the indexes of the remote clusters that the plan knows.
	Clusters []uint8
	// Onward are those of them that this gateway is a hub for.
	Onward []uint8
	// Gateways of the own cluster, this node among them if it is one.
	Gateways []Gateway
	// Paths over the links that this node terminates.
	Paths []Path
	// Previous is the choice in force. Where measurements say nothing, it stands.
	Previous Choice
}

// Gateway is a gateway of the own cluster as this node's probes see it.
type Gateway struct {
	ID    uint8
	State v1alpha1.PathState
	// Reach is the set of cluster indexes that the gateway's last answer named.
	Reach bpfgen.BorderWeftReach
}

// Path is a way to a cluster over a link of this gateway as its probes see it.
type Path struct {
	Cluster uint8
	Link    uint16
	// Direct: the link leads to the cluster itself, and not to a hub.
	Direct bool
	// Permitted: policy lets traffic take it.
	Permitted bool
	// Probed: the link has the rows that probes, and traffic, need.
	Probed bool
	State  v1alpha1.PathState
	// Since is when State last changed.
	Since time.Time
	// RTT is the smoothed round-trip time; 0: not measured.
	RTT time.Duration
}

// Choice is what was decided.
type Choice struct {
	plan.Words
	// Changed is when the path to a cluster last changed. What an earlier agent
	// did is not known.
	Changed map[uint8]time.Time
	// Contenders are paths that are better than those in use, by cluster.
	Contenders map[uint8]Contender
	// Reasons of all paths.
	Reasons map[Key]v1alpha1.PathReason
	// Alternates are the hub paths to take next: by cluster, the link.
	Alternates map[uint8]uint16
	// Again is when the choice can be another one although no verdict has changed;
	// zero: never.
	Again time.Time
}

// Contender is a path that is better than the one in use, but has to last first.
type Contender struct {
	Link  uint16
	Since time.Time
}

// Key names a path of this gateway.
type Key struct {
	Cluster uint8
	Link    uint16
}

func (p *Path) key() Key { return Key{p.Cluster, p.Link} }

// up reports whether a path may carry traffic and does carry probes.
func (p *Path) up() bool { return p.Permitted && p.Probed && p.State == v1alpha1.PathUp }

// silent reports whether nothing is known for or against a path that may carry
// traffic: its probes have not been answered yet, nor long enough not.
func (p *Path) silent() bool {
	return p.Permitted && p.Probed && p.State != v1alpha1.PathUp && p.State != v1alpha1.PathDown
}
