// Package introduction joins two clusters that know each other only through a
// third one. The consumer's half hands each of two providers the other's signed
// record and tells in the status of a ForeignClusterConnection what became of
// it; the provider's half decides by local policy what to do with the records
// that it is handed.
//
// Nothing ends because somebody is away: a channel that is down, a controller
// that restarts and a cluster that is switched off leave every link as it is. A
// link ends when its last introducer says so, is unpeered, is denied by the
// local admin, or has not been heard for as long as its lease.
package introduction

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/peering"
)

// Channels is what both halves need of channel.Manager.
type Channels interface {
	Status(v1alpha1.Identity) channel.Status
}

// older orders objects by creation, then by name.
func older(a, b metav1.Object) int {
	ours, theirs := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(ours.Compare(theirs.Time), cmp.Compare(a.GetName(), b.GetName()))
}

// byIdentity returns the ForeignCluster that stands for each identity: the
// oldest that is no duplicate.
func byIdentity(clusters []v1alpha1.ForeignCluster) map[v1alpha1.Identity]*v1alpha1.ForeignCluster {
	out := map[v1alpha1.Identity]*v1alpha1.ForeignCluster{}
	for i := range clusters {
		fc := &clusters[i]
		if isDuplicate(fc) {
			continue
		}
		if have := out[fc.Spec.Identity]; have == nil || older(fc, have) < 0 {
			out[fc.Spec.Identity] = fc
		}
	}
	return out
}

func isDuplicate(fc *v1alpha1.ForeignCluster) bool {
	return meta.IsStatusConditionTrue(fc.Status.Conditions, peering.ConditionDuplicate)
}

// recordOf returns the newest record known of a cluster, unchecked.
func recordOf(fc *v1alpha1.ForeignCluster) string {
	if fc.Status.Record != "" {
		return fc.Status.Record
	}
	return fc.Spec.Record
}
