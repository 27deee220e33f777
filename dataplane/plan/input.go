package plan

import (
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/node"
)

// Input is all that a plan depends on.
type Input struct {
	// Node is the name of the node to plan for.
	Node string
	// Config is nil if there is no FabricConfig: the plan is then the zero plan.
	Config    *v1alpha1.FabricConfig
	Nodes     []v1alpha1.FabricNode
	Neighbors []v1alpha1.Neighbor
	// VNI of the overlay, 1 to 16777215; 0 if not known.
	VNI   uint32
	Facts node.Facts
	// LinkIDs are the link ids in use, so that they keep their meaning over a
	// restart.
	LinkIDs map[LinkKey]uint16
}

// LinkKey names a link of this gateway: the neighbor and which of its gateways.
type LinkKey struct {
	Cluster       uint8
	RemoteGateway uint8
}

// Problem is a part of the input that was refused. The rest of the plan stands.
type Problem struct {
	// Neighbor is the object's name, empty if the problem lies elsewhere.
	Neighbor string `json:"neighbor,omitempty"`
	// Message is one sentence that names the item, the cause and the remedy.
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Neighbor == "" {
		return p.Message
	}
	return "neighbor " + p.Neighbor + ": " + p.Message
}
