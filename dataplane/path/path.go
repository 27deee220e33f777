// Package path decides, from what the probes saw, which way traffic takes: a
// pure function that returns the map words to write.
package path

import (
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// Input is what a choice depends on.
type Input struct {
	// Self is this node's gateway id, 0 on a plain node.
	Self uint8
	// Clusters are the indexes of the remote clusters that the plan knows.
	Clusters []uint8
	// Gateways of the own cluster, this node among them if it is one.
	Gateways []Gateway
	// Links that this node terminates.
	Links []Link
	// Previous are the words in force. Where measurements say nothing, they
	// stand.
	Previous plan.Words
}

// Gateway is a gateway of the own cluster as this node's probes see it.
type Gateway struct {
	ID    uint8
	State v1alpha1.PathState
	// Reach is the set of cluster indexes that the gateway's last answer named.
	Reach bpfgen.BorderWeftReach
}

// Link is a link of this gateway as its probes see it.
type Link struct {
	ID      uint16
	Cluster uint8
	State   v1alpha1.PathState
}
