package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Exposure says how a gateway's lane port is reached from outside.
//
// +kubebuilder:validation:Enum=HostPort;Static;None
type Exposure string

const (
	// ExposureHostPort publishes the gateway node's own address.
	ExposureHostPort Exposure = "HostPort"
	// ExposureStatic publishes the addresses given in gateways.endpoints.
	ExposureStatic Exposure = "Static"
	// ExposureNone publishes none: the gateways sit behind NAT and dial out.
	ExposureNone Exposure = "None"
)

// FabricConfigSpec is what a cluster's owner says of it. There is one, named
// "default".
//
// +kubebuilder:validation:XValidation:rule="self.clusterID == oldSelf.clusterID",message="clusterID cannot change: peers know this cluster by it; uninstall and install anew to rename"
type FabricConfigSpec struct {
	// ClusterID is the name this cluster gives itself. Immutable.
	ClusterID ClusterID `json:"clusterID"`

	// Networks that this cluster exports. Without a network of kind Pod here,
	// the pod CIDR is detected.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Networks []Network `json:"networks,omitempty"`

	// Pools from which local views of foreign networks and the own node network
	// are allocated, in order.
	// +optional
	// +kubebuilder:default={"100.64.0.0/10","10.0.0.0/8","248.0.0.0/6"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Pools []CIDR `json:"pools,omitempty"`

	// WirePools hold the prefixes that only tunnels carry.
	// +optional
	// +kubebuilder:default={"240.0.0.0/5"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	WirePools []CIDR `json:"wirePools,omitempty"`

	// ReservedCIDRs are never allocated from a pool.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	ReservedCIDRs []CIDR `json:"reservedCIDRs,omitempty"`

	// NodeNetworkPrefixLength is the size of the node network, in bits.
	// +optional
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=28
	NodeNetworkPrefixLength int32 `json:"nodeNetworkPrefixLength,omitempty"`

	// Gateways says which nodes terminate tunnels and how they are reached.
	// +optional
	// +kubebuilder:default={}
	Gateways GatewaySpec `json:"gateways,omitempty"`

	// Ports used by Weft on the nodes of this cluster.
	// +optional
	// +kubebuilder:default={}
	Ports PortsSpec `json:"ports,omitempty"`

	// Routing says where Weft's routes live on a node.
	// +optional
	// +kubebuilder:default={}
	Routing RoutingSpec `json:"routing,omitempty"`
}

// GatewaySpec selects the gateways.
//
// +kubebuilder:validation:XValidation:rule="!has(self.exposure) || self.exposure != 'Static' || (has(self.endpoints) && size(self.endpoints) > 0)",message="exposure Static needs at least one entry in endpoints"
type GatewaySpec struct {
	// Selector of the nodes that become gateways; empty picks one node.
	// +optional
	Selector map[string]string `json:"selector,omitempty"`
	// Exposure says how the lane port is reached from outside.
	// +optional
	// +kubebuilder:default=HostPort
	Exposure Exposure `json:"exposure,omitempty"`
	// Endpoints (addresses or host names, without port) to publish with
	// exposure Static.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	Endpoints []string `json:"endpoints,omitempty"`
}

// PortsSpec are the port numbers that Weft uses.
//
// +kubebuilder:validation:XValidation:rule="!has(self.overlay) || !(self.overlay in [4789, 8472])",message="overlay ports 4789 and 8472 belong to other VXLAN users; choose another"
// +kubebuilder:validation:XValidation:rule="!has(self.lane) || !(self.lane in [4789, 8472])",message="lane ports 4789 and 8472 belong to VXLAN users; choose another"
// +kubebuilder:validation:XValidation:rule="!has(self.overlay) || !has(self.lane) || self.overlay != self.lane",message="the overlay and the lane need two different UDP ports"
// +kubebuilder:validation:XValidation:rule="!has(self.agent) || !has(self.metrics) || self.agent != self.metrics",message="the agent API and the metrics need two different TCP ports"
type PortsSpec struct {
	// Lane is the UDP port of the first WireGuard lane: the one port that a
	// firewall must let in.
	// +optional
	// +kubebuilder:default=51847
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Lane int32 `json:"lane,omitempty"`
	// Overlay is the UDP port of the VXLAN leg between nodes of this cluster.
	// +optional
	// +kubebuilder:default=4797
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Overlay int32 `json:"overlay,omitempty"`
	// Agent is the TCP port of the agents' API on each node.
	// +optional
	// +kubebuilder:default=9810
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Agent int32 `json:"agent,omitempty"`
	// Metrics is the TCP port of the agents' Prometheus endpoint on each node.
	// +optional
	// +kubebuilder:default=9813
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Metrics int32 `json:"metrics,omitempty"`
}

// Ports inside the tunnels. They are the same in every cluster, since both
// ends of a link must agree on them before they can talk.
const (
	// ChannelPort is the TCP port of the peer channel on a channel address.
	ChannelPort = 9811
	// ProbePort is the UDP port of link and node probes.
	ProbePort = 9812
)

// RoutingSpec places Weft's routes among those of the CNI.
//
// +kubebuilder:validation:XValidation:rule="!has(self.table) || !(self.table in [253, 254, 255])",message="route tables 253, 254 and 255 (default, main, local) belong to the system; choose another"
type RoutingSpec struct {
	// Table is the number of Weft's own route table.
	// +optional
	// +kubebuilder:default=7077
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Table int32 `json:"table,omitempty"`
	// RulePriority is the priority of the rule that leads to Table.
	// +optional
	// +kubebuilder:default=105
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32765
	RulePriority int32 `json:"rulePriority,omitempty"`
}

// OwnNetwork is a CIDR of an own network with the index under which the data
// plane knows it. An index is never reused for another CIDR while the cluster
// has peers.
type OwnNetwork struct {
	Name string      `json:"name"`
	Kind NetworkKind `json:"kind"`
	CIDR CIDR        `json:"cidr"`
	// Index is 1 to 255.
	Index int32 `json:"index"`
}

// FabricConfigStatus is what the controller found and made.
type FabricConfigStatus struct {
	// Identity of this cluster.
	// +optional
	Identity Identity `json:"identity,omitempty"`
	// Networks that this cluster exports, one entry a CIDR, the node network
	// included.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=index
	Networks []OwnNetwork `json:"networks,omitempty"`
	// Record is this cluster's signed record, to hand to peers.
	// +optional
	Record string `json:"record,omitempty"`
	// ChannelEndpoint (address:port) is where the leading controller accepts
	// peer channels that agents splice to it.
	// +optional
	ChannelEndpoint string `json:"channelEndpoint,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FabricConfig configures the fabric in this cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fcf
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one FabricConfig and its name is default"
type FabricConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FabricConfigSpec   `json:"spec"`
	Status FabricConfigStatus `json:"status,omitempty"`
}

// FabricConfigList is a list of FabricConfig.
//
// +kubebuilder:object:root=true
type FabricConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FabricConfig `json:"items"`
}
