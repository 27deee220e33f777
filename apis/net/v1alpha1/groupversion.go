package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this API group and version.
var GroupVersion = schema.GroupVersion{Group: "net.weft.dev", Version: "v1alpha1"}

// AddToScheme registers every kind of the group with scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&FabricConfig{}, &FabricConfigList{},
		&FabricNode{}, &FabricNodeList{},
		&ForeignCluster{}, &ForeignClusterList{},
		&ForeignClusterConnection{}, &ForeignClusterConnectionList{},
		&Neighbor{}, &NeighborList{},
		&PrefixClaim{}, &PrefixClaimList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
