package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NeighborPeer is a gateway of the neighbor: one WireGuard peer per lane.
type NeighborPeer struct {
	// GatewayID in the neighbor's numbering, 1 to 255.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	GatewayID int32 `json:"gatewayID"`
	// ChannelAddress of the gateway, IPv6.
	ChannelAddress string `json:"channelAddress"`
	// Endpoints (addresses or host names, without port) to reach it at; empty
	// if it is behind NAT and dials us.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	Endpoints []string `json:"endpoints,omitempty"`
	// Lanes of the gateway, in order.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Lanes []PeerLane `json:"lanes"`
}

// PeerLane is the far end of a lane.
type PeerLane struct {
	// Port is the UDP port at each of the gateway's endpoints.
	Port int32 `json:"port"`
	// PublicKey in base64.
	PublicKey string `json:"publicKey"`
}

// ViewNetwork is a foreign network in local view.
type ViewNetwork struct {
	// Name and Kind as the foreign cluster exports it.
	Name string      `json:"name"`
	Kind NetworkKind `json:"kind"`
	// Index under which the data plane knows it, 1 to 255, unique within the
	// cluster and stable.
	Index int32 `json:"index"`
	// Original CIDR in the foreign cluster.
	Original CIDR `json:"original"`
	// Local is our view of it: V_X(O), of the same length.
	Local CIDR `json:"local"`
}

// RowSide says which end of the link chose a row.
//
// +kubebuilder:validation:Enum=Ours;Theirs
type RowSide string

const (
	// RowOurs maps V_X(O) to W_X(y,O): we chose the wire prefix.
	RowOurs RowSide = "Ours"
	// RowTheirs maps real(X) to W_Y(x,X): the neighbor chose the wire prefix.
	RowTheirs RowSide = "Theirs"
)

// Row is one bijection of a link: local prefix <-> wire prefix, same length.
type Row struct {
	Side RowSide `json:"side"`
	// OwnGateway and RemoteGateway name the link.
	OwnGateway    int32 `json:"ownGateway"`
	RemoteGateway int32 `json:"remoteGateway"`
	// OriginIndex is the cluster index of the network's cluster: 0 is this
	// cluster itself.
	OriginIndex int32 `json:"originIndex"`
	// NetworkIndex within the origin, 1 to 255.
	NetworkIndex int32 `json:"networkIndex"`
	// Local prefix: real for our own networks, the view for foreign ones.
	Local CIDR `json:"local"`
	// Wire prefix that the tunnel carries.
	Wire CIDR `json:"wire"`
}

// NeighborAccess is what concerns the data plane of a peer's access.
type NeighborAccess struct {
	Pods PodAccess `json:"pods"`
}

// PathPolicy says which paths to a cluster traffic may take.
//
// +kubebuilder:validation:Enum=Any;DirectOnly;HubOnly
type PathPolicy string

const (
	// PathAny: direct links, and hubs where no direct link is up or a hub is
	// faster by enough. Packets are accepted from all.
	PathAny PathPolicy = "Any"
	// PathDirectOnly: no hub carries payload in either direction, also while no
	// direct link is up. Probes may pass.
	PathDirectOnly PathPolicy = "DirectOnly"
	// PathHubOnly: nothing is sent over the direct links, which are about to end;
	// packets are accepted from all.
	PathHubOnly PathPolicy = "HubOnly"
)

// NeighborSpec is all that an agent needs to know of a neighbor, or of a cluster
// behind one: that has no Peers, and its rows are those of the hubs' links, with
// its cluster index as their origin. Nothing in it is measured.
type NeighborSpec struct {
	ClusterID ClusterID `json:"clusterID"`
	Identity  Identity  `json:"identity"`
	// ClusterIndex of the neighbor in this cluster, 1 to 255, allocated once.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterIndex cannot change"
	ClusterIndex int32 `json:"clusterIndex"`
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Peers []NeighborPeer `json:"peers,omitempty"`
	// Networks of the neighbor in local view.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Networks []ViewNetwork `json:"networks,omitempty"`
	// Rows of all links to the neighbor.
	// +optional
	// +kubebuilder:validation:MaxItems=4096
	Rows []Row `json:"rows,omitempty"`
	// MTU in bytes that every path carries beyond our own side, as the clusters on
	// them say: the least of their lanes and overlays. 0: not told yet.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// Access that the neighbor has here.
	Access NeighborAccess `json:"access"`
	// Paths that traffic to and from the neighbor may take.
	// +optional
	// +kubebuilder:default=Any
	Paths PathPolicy `json:"paths,omitempty"`
	// Transit are the clusters (indexes) that the neighbor exchanges traffic with
	// through this one. A pair is forwarded if either of the two names the other.
	// +optional
	// +kubebuilder:validation:MaxItems=254
	Transit []int32 `json:"transit,omitempty"`
}

// Neighbor is internal: the controller writes it, agents read it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Index",type=integer,JSONPath=`.spec.clusterIndex`
type Neighbor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NeighborSpec `json:"spec"`
}

// NeighborList is a list of Neighbor.
//
// +kubebuilder:object:root=true
type NeighborList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Neighbor `json:"items"`
}
