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
	// Paths of this gateway to other clusters: by cluster index, direct ones
	// first, then by the hub's index, then by remote gateway.
	Paths []PathName `json:"paths,omitempty"`
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
	// ChannelAddress of the gateway at the far end.
	ChannelAddress netip.Addr `json:"channelAddress"`
}

// PathName is a way to a cluster over one link: a link to the cluster itself, or
// one to a hub that leads on to it.
type PathName struct {
	// Cluster is the Neighbor that the path leads to, Via the one that the link
	// leads to, each with its cluster index.
	Cluster       string `json:"cluster"`
	ClusterIndex  int32  `json:"clusterIndex"`
	Via           string `json:"via"`
	ViaIndex      int32  `json:"viaIndex"`
	Link          uint16 `json:"link"`
	Lane          string `json:"lane"`
	OwnGateway    int32  `json:"ownGateway"`
	RemoteGateway int32  `json:"remoteGateway"` // of Via
	// ProbeSource and ProbeDestination are host 0 of the node networks of this
	// cluster and of the path's, in the wire form of the link. Both are invalid
	// until a direct link has the rows for them; a hub path has them always.
	ProbeSource      netip.Addr `json:"probeSource,omitzero"`
	ProbeDestination netip.Addr `json:"probeDestination,omitzero"`
	// Permitted: policy lets traffic take it. One that is not is probed all the
	// same.
	Permitted bool `json:"permitted"`
}

// Direct reports whether no hub is on the path.
func (p *PathName) Direct() bool { return p.ClusterIndex == p.ViaIndex }

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
	// DirectOnly: no hub may carry its traffic.
	DirectOnly bool `json:"directOnly,omitempty"`
	// Onward: this gateway forwards other neighbors' traffic to it.
	Onward bool `json:"onward,omitempty"`
}
