package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodAccess says which flows towards our pods a peer may open.
//
// +kubebuilder:validation:Enum=All;None
type PodAccess string

const (
	PodAccessAll  PodAccess = "All"
	PodAccessNone PodAccess = "None"
)

// IntroductionPolicy says what becomes of the clusters that a peer introduces.
//
// +kubebuilder:validation:Enum=Allow;Ask;Deny
type IntroductionPolicy string

const (
	// IntroductionAllow peers with them directly without asking.
	IntroductionAllow IntroductionPolicy = "Allow"
	// IntroductionAsk makes a ForeignCluster that waits for spec.accepted.
	IntroductionAsk IntroductionPolicy = "Ask"
	// IntroductionDeny refuses them.
	IntroductionDeny IntroductionPolicy = "Deny"
)

// TransitSpec is what a peer and this cluster forward for each other.
type TransitSpec struct {
	// Neighbors that the peer may exchange traffic with through this cluster, by
	// local name; "*" stands for all that an admin made, not for those that others
	// introduced. A pair is forwarded, both ways, if either of the two names the
	// other.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=40
	// +listType=set
	Neighbors []string `json:"neighbors,omitempty"`
	// UseAsHub: this cluster reaches other clusters through the peer, if the peer
	// forwards. A hub can read and forge what passes through it.
	// +optional
	UseAsHub bool `json:"useAsHub,omitempty"`
}

// ServicePolicy says which namespaces a rule about services covers.
//
// +kubebuilder:validation:Enum=All;Selected;None
type ServicePolicy string

const (
	ServicesAll ServicePolicy = "All"
	// ServicesSelected covers the namespaces that stand beside it.
	ServicesSelected ServicePolicy = "Selected"
	ServicesNone     ServicePolicy = "None"
)

// ServicesSpec is which multi-cluster services (ServiceExports) a peer and this
// cluster tell and take from each other.
type ServicesSpec struct {
	// Export: the namespaces whose exports the peer is told.
	// +optional
	// +kubebuilder:default=None
	Export ServicePolicy `json:"export,omitempty"`
	// ExportNamespaces, where export is Selected.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	ExportNamespaces []string `json:"exportNamespaces,omitempty"`
	// Import: the namespaces in which the peer's exports count here. They become
	// part of the services of the same name, also of this cluster's own.
	// +optional
	// +kubebuilder:default=None
	Import ServicePolicy `json:"import,omitempty"`
	// ImportNamespaces, where import is Selected.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	ImportNamespaces []string `json:"importNamespaces,omitempty"`
}

// Exports reports whether the peer is told the exports of a namespace.
func (s *ServicesSpec) Exports(namespace string) bool {
	return covers(s.Export, s.ExportNamespaces, namespace)
}

// Imports reports whether the peer's exports in a namespace count here.
func (s *ServicesSpec) Imports(namespace string) bool {
	return covers(s.Import, s.ImportNamespaces, namespace)
}

func covers(policy ServicePolicy, namespaces []string, namespace string) bool {
	return policy == ServicesAll || policy == ServicesSelected && slices.Contains(namespaces, namespace)
}

// AccessSpec is what a peer may do here. A field left out means None.
type AccessSpec struct {
	// Pods that the peer's pods may open flows to. Replies to flows that our
	// pods opened are never restricted.
	// +optional
	// +kubebuilder:default=None
	Pods PodAccess `json:"pods,omitempty"`
	// Services that the peer and this cluster tell each other.
	// +optional
	Services ServicesSpec `json:"services,omitzero"`
	// Transit between the peer and other clusters.
	// +optional
	Transit TransitSpec `json:"transit,omitzero"`
	// Introductions that the peer makes: whether we peer directly with clusters
	// whose records it hands us.
	// +optional
	// +kubebuilder:default=Deny
	Introductions IntroductionPolicy `json:"introductions,omitempty"`
	// Introduced is the pods access of clusters that this cluster knows through the
	// peer alone: introduced by it, or reached through it as a hub.
	// +optional
	// +kubebuilder:default=None
	Introduced PodAccess `json:"introduced,omitempty"`
}

// ForeignClusterSpec is what a local admin says of another cluster, or
// weft-controller of one that it knows through others: reachedThrough and
// introducedBy are the controller's, and both are empty on an admin's object.
//
// +kubebuilder:validation:XValidation:rule="self.identity == oldSelf.identity",message="identity cannot change: another identity is another cluster; create another ForeignCluster under another name"
type ForeignClusterSpec struct {
	// Identity of the cluster. Immutable.
	Identity Identity `json:"identity"`
	// Record is the cluster's signed record, as `weftctl record` prints it. A
	// newer valid record that arrives over the peer channel wins over it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Record string `json:"record"`
	// Access that the cluster has here.
	// +optional
	// +kubebuilder:default={}
	Access AccessSpec `json:"access,omitempty"`
	// Accepted is false while an introduction waits for an admin. Left out means
	// true.
	// +optional
	Accepted *bool `json:"accepted,omitempty"`
	// ReachedThrough are the hubs (local names) for whose sake the controller made
	// this object.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	ReachedThrough []string `json:"reachedThrough,omitempty"`
	// IntroducedBy are the introductions for whose sake the controller made this
	// object, as "introducer/connection" with the introducer's local name.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	IntroducedBy []string `json:"introducedBy,omitempty"`
}

// IsAccepted reports whether nobody has to agree any more.
func (s *ForeignClusterSpec) IsAccepted() bool { return s.Accepted == nil || *s.Accepted }

// MadeByAdmin reports whether a person or a tool of theirs made the object, and
// not weft-controller for the sake of a hub or an introduction.
func (s *ForeignClusterSpec) MadeByAdmin() bool {
	return len(s.ReachedThrough) == 0 && len(s.IntroducedBy) == 0
}

// Direct reports whether this cluster peers with it directly: an admin said so,
// or an introduction that is accepted.
func (s *ForeignClusterSpec) Direct() bool {
	return s.IsAccepted() && (s.MadeByAdmin() || len(s.IntroducedBy) > 0)
}

// RemappedNetwork is a network of the foreign cluster in local view.
type RemappedNetwork struct {
	Name     string      `json:"name"`
	Kind     NetworkKind `json:"kind"`
	Original CIDR        `json:"original"`
	Remapped CIDR        `json:"remapped"`
}

// PathState is the verdict of the probes over a path.
//
// +kubebuilder:validation:Enum=Up;Down;Unknown
type PathState string

const (
	PathUp      PathState = "Up"
	PathDown    PathState = "Down"
	PathUnknown PathState = "Unknown"
)

// PathReason says why traffic takes a path or does not.
type PathReason string

const (
	// Of an active path.
	PathReasonDirect   PathReason = "Direct"   // up, and no hub is faster by enough
	PathReasonFastest  PathReason = "Fastest"  // up, and faster by enough than the others
	PathReasonFallback PathReason = "Fallback" // up, while no direct path is
	PathReasonHeld     PathReason = "Held"     // up, kept until a better one has lasted
	PathReasonLast     PathReason = "Last"     // none is up, so the last choice stands
	// Of one that is not.
	PathReasonSlower   PathReason = "Slower"
	PathReasonDown     PathReason = "Down"
	PathReasonUnproven PathReason = "Unproven" // no probe has been answered yet
	PathReasonWaiting  PathReason = "Waiting"  // better, but has to last first
	PathReasonExcluded PathReason = "Excluded" // policy: Require forbids hubs, or the link is ending
)

// PathStatus is one way to the foreign cluster, as measured on the data path.
type PathStatus struct {
	// Via is the local name of the neighbor that the path enters; for a direct
	// path, the cluster itself.
	Via string `json:"via"`
	// Gateway (own) and RemoteGateway are gateway ids.
	Gateway       int32     `json:"gateway"`
	RemoteGateway int32     `json:"remoteGateway"`
	State         PathState `json:"state"`
	// RTTMicroseconds is the smoothed round-trip time of the probes.
	// +optional
	RTTMicroseconds int64 `json:"rttMicroseconds,omitempty"`
	// LossPermille is the share of unanswered probes of the last 100.
	// +optional
	LossPermille int32 `json:"lossPermille,omitempty"`
	// Active is true on the path that traffic takes.
	Active bool `json:"active"`
	// Reason is why the path is active or is not.
	// +optional
	Reason PathReason `json:"reason,omitempty"`
	// Since is when State last changed.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
}

// IntroductionState is what became of an introduction here.
//
// +kubebuilder:validation:Enum=Accepted;AwaitingApproval;Ending
type IntroductionState string

const (
	IntroductionAccepted         IntroductionState = "Accepted"
	IntroductionAwaitingApproval IntroductionState = "AwaitingApproval"
	// IntroductionEnding: it is withdrawn, and traffic moves off the direct link.
	IntroductionEnding IntroductionState = "Ending"
)

// IntroductionStatus is an introduction that stands. It is kept while its
// introducer is away.
type IntroductionStatus struct {
	// Introducer is the local name of the cluster that introduces, and Identity its.
	Introducer string   `json:"introducer"`
	Identity   Identity `json:"identity"`
	// Connection and UID of the ForeignClusterConnection there.
	Connection string `json:"connection"`
	UID        string `json:"uid"`
	// Mode that the introducer asks for.
	Mode ConnectionMode `json:"mode"`
	// MTU in bytes that the introducer asks for, 0: none.
	// +optional
	MTU int32 `json:"mtu,omitempty"`
	// State of it here.
	State IntroductionState `json:"state"`
	// Expires is when the introduction ends unless its introducer renews it; absent:
	// never. Of one that is Ending, when it is removed at the latest.
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
}

// ForeignClusterStatus is what the controller sees of the foreign cluster.
type ForeignClusterStatus struct {
	// ClusterID that the cluster gives itself, from its record.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`
	// Record is the newest valid record known, if it is newer than the spec's.
	// +optional
	Record string `json:"record,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Networks []RemappedNetwork `json:"networks,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Paths []PathStatus `json:"paths,omitempty"`
	// Introductions of this cluster by others that stand.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Introductions []IntroductionStatus `json:"introductions,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types of a ForeignCluster, in the order in which they become true.
const (
	// ConditionRecordValid: the record is well-formed and signed by the identity.
	ConditionRecordValid = "RecordValid"
	// ConditionAccepted: no admin has to agree to an introduction. Absent where
	// there was nothing to agree to.
	ConditionAccepted = "Accepted"
	// ConditionChannelReady: the peer channel is established.
	ConditionChannelReady = "ChannelReady"
	// ConditionNetworksReady: both sides know each other's networks and prefixes,
	// and our gateways hold the rows.
	ConditionNetworksReady = "NetworksReady"
	// ConditionConnected: probes over the data path are answered.
	ConditionConnected = "Connected"
	// ConditionMTUSound: packets of full size cross the links, in one piece.
	// Absent while no link is up. Nothing else waits for it.
	ConditionMTUSound = "MTUSound"
	// ConditionReady is the summary on FabricConfig and FabricNode.
	ConditionReady = "Ready"
)

// ReasonTornDown is the reason of a FabricNode's condition Ready once its agent
// has removed everything from the node; an uninstall waits for it.
const ReasonTornDown = "TornDown"

// ForeignCluster is another cluster that this one knows. Its name is the local
// name, by default the cluster's ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fcl
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.clusterID`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.spec.access.pods`
// +kubebuilder:printcolumn:name="Remapped",type=string,JSONPath=`.status.networks[?(@.kind=="Pod")].remapped`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",message="the local name of a cluster is at most 40 characters"
type ForeignCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ForeignClusterSpec   `json:"spec"`
	Status ForeignClusterStatus `json:"status,omitempty"`
}

// ForeignClusterList is a list of ForeignCluster.
//
// +kubebuilder:object:root=true
type ForeignClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ForeignCluster `json:"items"`
}
