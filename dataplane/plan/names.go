package plan

import (
	"net/netip"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Names tie the numbers of a plan to the objects they stand for: for probes,
// path choice, status and metrics. Nothing of them is applied.
type Names struct {
	// Gateway is this node's gateway id, 0 on a plain node.
	Gateway int32 `json:"gateway,omitempty"`
	// Links of this gateway, by cluster index and remote gateway.
	Links []LinkName `json:"links,omitempty"`
	// Nodes of the cluster that have a fabric address, this one included, by
	// name.
	Nodes []NodeName `json:"nodes,omitempty"`
	// Clusters that the plan leads to, by index.
	Clusters []ClusterName `json:"clusters,omitempty"`
	// Neighbors that the plan holds in full, by name.
	Neighbors []v1alpha1.AppliedNeighbor `json:"neighbors,omitempty"`
}

// LinkName says what a link id stands for.
type LinkName struct {
	Link          uint16   `json:"link"`
	Lane          string   `json:"lane"`
	Neighbor      string   `json:"neighbor"`
	ClusterIndex  int32    `json:"clusterIndex"`
	OwnGateway    int32    `json:"ownGateway"`
	RemoteGateway int32    `json:"remoteGateway"`
	PublicKey     [32]byte `json:"-"`
	// ProbeSource and ProbeDestination are host 0 of both ends' node networks in
	// wire form; invalid until the link has their rows.
	ProbeSource      netip.Addr `json:"probeSource,omitzero"`
	ProbeDestination netip.Addr `json:"probeDestination,omitzero"`
}

// NodeName is a node of the cluster.
type NodeName struct {
	Name          string     `json:"name"`
	GatewayID     int32      `json:"gatewayID,omitempty"`
	FabricAddress netip.Addr `json:"fabricAddress"`
}

// ClusterName says which Neighbor a cluster index stands for.
type ClusterName struct {
	Neighbor string `json:"neighbor"`
	Index    int32  `json:"index"`
}
