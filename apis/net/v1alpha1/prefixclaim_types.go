package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClaimPurpose says what a claimed prefix is for.
//
// +kubebuilder:validation:Enum=View;Wire;NodeNetwork
type ClaimPurpose string

const (
	// ClaimView is a local view of a foreign network.
	ClaimView ClaimPurpose = "View"
	// ClaimWire is a wire prefix of a link.
	ClaimWire ClaimPurpose = "Wire"
	// ClaimNodeNetwork is the own node network.
	ClaimNodeNetwork ClaimPurpose = "NodeNetwork"
)

// PrefixClaimSpec is one allocation. It is immutable.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a claim cannot change; delete it and make another"
type PrefixClaimSpec struct {
	// Prefix that is taken.
	Prefix CIDR `json:"prefix"`
	// Purpose of the prefix.
	Purpose ClaimPurpose `json:"purpose"`
	// Identity of the cluster whose network this is; empty for our own.
	// +optional
	// +kubebuilder:validation:MaxLength=52
	Identity string `json:"identity,omitempty"`
	// Network and CIDR as the cluster exports it.
	// +optional
	// +kubebuilder:validation:MaxLength=30
	Network string `json:"network,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=43
	CIDR string `json:"cidr,omitempty"`
	// Via is the identity of the neighbor whose gateway the wire prefix enters
	// from, and GatewayID that gateway (wire prefixes only).
	// +optional
	// +kubebuilder:validation:MaxLength=52
	Via string `json:"via,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	GatewayID int32 `json:"gatewayID,omitempty"`
}

// PrefixClaim records an allocated prefix. It is named after the prefix
// (100.70.0.0/16 is v4-100-70-0-0-16) and outlives the peering, so that a
// re-peering finds the same view.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Prefix",type=string,JSONPath=`.spec.prefix`
// +kubebuilder:printcolumn:name="Purpose",type=string,JSONPath=`.spec.purpose`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="Identity",type=string,priority=1,JSONPath=`.spec.identity`
type PrefixClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PrefixClaimSpec `json:"spec"`
}

// PrefixClaimList is a list of PrefixClaim.
//
// +kubebuilder:object:root=true
type PrefixClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PrefixClaim `json:"items"`
}
