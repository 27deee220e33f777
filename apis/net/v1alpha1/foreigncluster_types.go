package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodAccess says which flows towards our pods a peer may open.
//
// +kubebuilder:validation:Enum=All;None
type PodAccess string

const (
	PodAccessAll  PodAccess = "All"
	PodAccessNone PodAccess = "None"
)

// AccessSpec is what a peer may do here. A field left out means None.
type AccessSpec struct {
	// Pods that the peer's pods may open flows to. Replies to flows that our
	// pods opened are never restricted.
	// +optional
	// +kubebuilder:default=None
	Pods PodAccess `json:"pods,omitempty"`
}

// ForeignClusterSpec is what a local admin says of another cluster.
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
	// Since is when State last changed.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
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
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types of a ForeignCluster, in the order in which they become true.
const (
	// ConditionRecordValid: the record is well-formed and signed by the identity.
	ConditionRecordValid = "RecordValid"
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
