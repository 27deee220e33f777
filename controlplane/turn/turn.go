// Package turn holds what the reconcilers' turns have in common.
package turn

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// again is soon, but leaves the cache time to catch up.
const again = 100 * time.Millisecond

// Settle turns the errors of a write that was based on a stale cache into
// another turn: they are ordinary and nobody has to read of them.
func Settle(result ctrl.Result, err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return result, nil
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return ctrl.Result{RequeueAfter: again}, nil
	}
	return ctrl.Result{}, err
}

// FabricNodeChanged passes over what changes often and concerns only the other
// agents: which pods a node hosts.
func FabricNodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.FabricNode)
		after, okAfter := e.ObjectNew.(*v1alpha1.FabricNode)
		if !okBefore || !okAfter {
			return true
		}
		a, b := before.Status, after.Status
		a.PodPrefixes, b.PodPrefixes = nil, nil
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(a, b) ||
			!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
	}}
}
