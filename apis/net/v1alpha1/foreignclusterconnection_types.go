package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConnectionMode says what a direct link between two providers is for.
//
// +kubebuilder:validation:Enum=Prefer;Require;Disabled
type ConnectionMode string

const (
	// ModePrefer sends over the direct link and falls back to the hub.
	ModePrefer ConnectionMode = "Prefer"
	// ModeRequire never lets payload cross the hub, from acceptance on.
	ModeRequire ConnectionMode = "Require"
	// ModeDisabled withdraws the introduction but keeps the object.
	ModeDisabled ConnectionMode = "Disabled"
)

// ConnectionNetworking is what the link should be like.
type ConnectionNetworking struct {
	// MTU in bytes at layer 3 that packets over the link may have; 0: as large as
	// the paths carry.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu,omitempty"`
}

// ForeignClusterConnectionSpec joins two providers of this cluster directly.
//
// +kubebuilder:validation:XValidation:rule="self.foreignClusterA != self.foreignClusterB",message="foreignClusterA and foreignClusterB must be two different clusters"
// +kubebuilder:validation:XValidation:rule="self.foreignClusterA == oldSelf.foreignClusterA && self.foreignClusterB == oldSelf.foreignClusterB",message="the two clusters cannot change: create another ForeignClusterConnection"
type ForeignClusterConnectionSpec struct {
	// ForeignClusterA and ForeignClusterB are the local names of two
	// ForeignClusters that this cluster is peered with. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	ForeignClusterA string `json:"foreignClusterA"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	ForeignClusterB string `json:"foreignClusterB"`
	// +optional
	// +kubebuilder:default=Prefer
	Mode ConnectionMode `json:"mode,omitempty"`
	// +optional
	Networking ConnectionNetworking `json:"networking,omitzero"`
	// Lease is how long the providers keep the link while this cluster cannot be
	// heard, such as 24h. Left out: for ever.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m"
	Lease *metav1.Duration `json:"lease,omitempty"`
}

// ConnectionPhase sums up how far a connection has come.
//
// +kubebuilder:validation:Enum=Pending;Introduced;Connecting;Connected;Degraded;Denied;Failed
type ConnectionPhase string

const (
	// PhasePending: a provider is not there to be introduced.
	PhasePending ConnectionPhase = "Pending"
	// PhaseIntroduced: both have the other's record; one has not agreed yet.
	PhaseIntroduced ConnectionPhase = "Introduced"
	// PhaseConnecting: both have agreed; probes over the direct link are not
	// answered yet.
	PhaseConnecting ConnectionPhase = "Connecting"
	// PhaseConnected: both send over the direct link.
	PhaseConnected ConnectionPhase = "Connected"
	// PhaseDegraded: it was connected; now traffic takes the hub (Prefer), or
	// none flows (Require).
	PhaseDegraded ConnectionPhase = "Degraded"
	// PhaseDenied: a provider does not allow introductions from this cluster.
	PhaseDenied ConnectionPhase = "Denied"
	// PhaseFailed: it cannot work as it is written, or a provider refuses a record.
	PhaseFailed ConnectionPhase = "Failed"
)

// ConnectionSide is one provider as it reports itself.
type ConnectionSide struct {
	// Name of the ForeignCluster here.
	Name string `json:"name"`
	// State of the introduction there: Accepted, AwaitingApproval, Denied,
	// InvalidRecord, Ending, or Unreachable.
	State string `json:"state"`
	// PodCIDR of the provider, and RemappedPodCIDR under which the other one sees it.
	// +optional
	PodCIDR CIDR `json:"podCIDR,omitempty"`
	// +optional
	RemappedPodCIDR CIDR `json:"remappedPodCIDR,omitempty"`
	// ActivePath that its traffic to the other takes: Direct, Hub or None.
	// +optional
	ActivePath string `json:"activePath,omitempty"`
	// DirectRTTMicroseconds and HubRTTMicroseconds are smoothed round-trip times of
	// its probes, 0: not measured.
	// +optional
	DirectRTTMicroseconds int64 `json:"directRTTMicroseconds,omitempty"`
	// +optional
	HubRTTMicroseconds int64 `json:"hubRTTMicroseconds,omitempty"`
	// DirectLossPermille is the share of unanswered probes of the last 100.
	// +optional
	DirectLossPermille int32 `json:"directLossPermille,omitempty"`
	// MTU in bytes that it uses towards the other.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// Since is when ActivePath last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// ForeignClusterConnectionStatus is what the two providers report.
type ForeignClusterConnectionStatus struct {
	// +optional
	Phase ConnectionPhase `json:"phase,omitempty"`
	// Since is when Phase last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=2
	Sides []ConnectionSide `json:"sides,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConnectionReasons of condition Connected of a ForeignClusterConnection.
const (
	ReasonProviderUnreachable = "ProviderUnreachable"
	ReasonUnknownCluster      = "UnknownForeignCluster"
	ReasonAwaitingApproval    = "AwaitingApproval"
	ReasonAwaitingAnswer      = "AwaitingAnswer"
	ReasonDenied              = "Denied"
	ReasonRefusedRecord       = "InvalidRecord"
	ReasonDuplicateConnection = "Duplicate"
	ReasonDirectUp            = "DirectLinkUp"
	ReasonDirectDown          = "DirectLinkDown"
	ReasonConnecting          = "Connecting"
	ReasonDisabled            = "Disabled"
)

// ForeignClusterConnection joins two providers of this cluster directly, so
// that their traffic does not pass through it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fcc
// +kubebuilder:printcolumn:name="A",type=string,JSONPath=`.spec.foreignClusterA`
// +kubebuilder:printcolumn:name="B",type=string,JSONPath=`.spec.foreignClusterB`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].message`
type ForeignClusterConnection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ForeignClusterConnectionSpec   `json:"spec"`
	Status ForeignClusterConnectionStatus `json:"status,omitempty"`
}

// ForeignClusterConnectionList is a list of ForeignClusterConnection.
//
// +kubebuilder:object:root=true
type ForeignClusterConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ForeignClusterConnection `json:"items"`
}
