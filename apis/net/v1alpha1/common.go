package v1alpha1

import "net/netip"

// CIDR is an IPv4 or IPv6 prefix without host bits, such as 10.244.0.0/16.
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be a CIDR without host bits, such as 10.244.0.0/16"
type CIDR string

// NeverRouted lists the addresses that no network may hold, whoever exports it:
// "this network", loopback, link-local (where cloud metadata lives), multicast
// and broadcast (RFC 6890). bpf/lib/address.h drops packets that carry them.
func NeverRouted() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("224.0.0.0/4"),
		netip.MustParsePrefix("255.255.255.255/32"),
	}
}

// Identity is the fingerprint of a cluster's Ed25519 public key: its SHA-256
// in lower-case base32 without padding (RFC 4648), 52 characters.
//
// +kubebuilder:validation:Pattern=`^[a-z2-7]{52}$`
type Identity string

// ClusterID is the label that a cluster gives itself. Only the Identity
// counts; two clusters may carry the same ID.
//
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="must be 1 to 40 characters: a lower-case letter, then lower-case letters, digits and hyphens, not ending in a hyphen"
type ClusterID string

// NetworkKind says what the addresses of a network belong to.
//
// +kubebuilder:validation:Enum=Pod;Node
type NetworkKind string

const (
	// NetworkPod is a network of pod addresses.
	NetworkPod NetworkKind = "Pod"
	// NetworkNode is the network that gives each node one fabric address.
	// Its host 0 belongs to probes.
	NetworkNode NetworkKind = "Node"
)

// Names of own networks that the controller makes by itself.
const (
	PodNetworkName  = "pods"
	NodeNetworkName = "nodes"
)

// Network is a set of addresses that a cluster exports, under a stable name.
type Network struct {
	// Name identifies the network within its cluster and never changes meaning.
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$`
	Name string `json:"name"`
	// Kind says whose addresses these are.
	Kind NetworkKind `json:"kind"`
	// CIDRs of the network in its own cluster; order means nothing.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	CIDRs []CIDR `json:"cidrs"`
}

// Annotations, finalizers, labels and names that more than one component uses.
const (
	// Finalizer holds an object until the controller has undone what it made.
	Finalizer = "net.weft.dev/teardown"
	// FabricConfigName is the name of the one FabricConfig of a cluster.
	FabricConfigName = "default"
	// SystemNamespace is where Weft's own workloads and Secrets live.
	SystemNamespace = "weft-system"
	// IdentitySecretName holds the cluster's Ed25519 key (controller only).
	IdentitySecretName = "weft-identity"
	// OverlaySecretName holds the overlay's VNI (agents read it).
	OverlaySecretName = "weft-overlay"
	// OverlaySecretKey is the Secret's data key; its value is the VNI, 1 to
	// 16777215, in decimal text.
	OverlaySecretKey = "vni"
)
