package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FabricNodeSpec is what the controller assigns to a node.
type FabricNodeSpec struct {
	// FabricAddress of the node, from the own node network.
	// +optional
	// +kubebuilder:validation:MaxLength=39
	FabricAddress string `json:"fabricAddress,omitempty"`
	// GatewayID is set on gateways: 1 to 255, small and stable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	GatewayID int32 `json:"gatewayID,omitempty"`
}

// LaneStatus is a WireGuard device of a gateway.
type LaneStatus struct {
	// Name of the device: weft0, weft1, ...
	Name string `json:"name"`
	// Port is the UDP port it listens on.
	Port int32 `json:"port"`
	// PublicKey is its Curve25519 public key in base64.
	PublicKey string `json:"publicKey"`
	// Kernel is false where userspace WireGuard serves the lane.
	Kernel bool `json:"kernel"`
}

// AppliedNeighbor says which generation of a Neighbor the node's data plane
// holds.
type AppliedNeighbor struct {
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
}

// FabricNodeStatus is written by the node's own agent and nobody else.
type FabricNodeStatus struct {
	// UnderlayAddress of the node: where its peers in the cluster send the
	// overlay's outer packets.
	// +optional
	UnderlayAddress string `json:"underlayAddress,omitempty"`
	// UnderlayMTU in bytes.
	// +optional
	UnderlayMTU int32 `json:"underlayMTU,omitempty"`
	// Lanes of a gateway.
	// +optional
	// +listType=map
	// +listMapKey=name
	Lanes []LaneStatus `json:"lanes,omitempty"`
	// PodPrefixes are the addresses (as /32 or /128) or prefixes of the pods
	// that the node hosts, sorted. Pods on the host network are not among them.
	// +optional
	// +kubebuilder:validation:MaxItems=4096
	PodPrefixes []CIDR `json:"podPrefixes,omitempty"`
	// Occupied are prefixes that the node has an address in or a route to and
	// that Weft did not make, sorted.
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	Occupied []CIDR `json:"occupied,omitempty"`
	// AgentCertificate is the SHA-256 of the agent's TLS certificate (DER) in
	// lower-case hexadecimal.
	// +optional
	AgentCertificate string `json:"agentCertificate,omitempty"`
	// Applied lists the Neighbors whose rows the data plane of this node holds.
	// +optional
	// +listType=map
	// +listMapKey=name
	Applied []AppliedNeighbor `json:"applied,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// FabricNode is a node of this cluster as the fabric sees it. It is named
// after the Node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fn
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.fabricAddress`
// +kubebuilder:printcolumn:name="Gateway",type=integer,JSONPath=`.spec.gatewayID`
// +kubebuilder:printcolumn:name="Underlay",type=string,JSONPath=`.status.underlayAddress`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type FabricNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FabricNodeSpec   `json:"spec,omitempty"`
	Status FabricNodeStatus `json:"status,omitempty"`
}

// FabricNodeList is a list of FabricNode.
//
// +kubebuilder:object:root=true
type FabricNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FabricNode `json:"items"`
}
