// Package v1alpha1 holds the objects of group net.weft.dev: what a user says
// of the fabric (FabricConfig, ForeignCluster), what the controller tells the
// agents (FabricNode spec, Neighbor), what the agents say of their nodes
// (FabricNode status), and the record of every allocated prefix (PrefixClaim).
//
// Every kind is cluster-scoped. An address or prefix in these types is always
// IPv4 or IPv6 text as netip prints it; ports are UDP or TCP port numbers;
// times are RFC 3339; durations carry their unit in the field's name.
//
// +kubebuilder:object:generate=true
// +groupName=net.weft.dev
package v1alpha1
