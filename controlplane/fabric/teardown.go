package fabric

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// teardown waits until every agent says that its node is clean, but not for
// ever, and lets the FabricConfig go.
func (r *Reconciler) teardown(ctx context.Context, s *state) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.config, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	waiting := notTornDown(s)
	age := r.Now().Sub(s.config.DeletionTimestamp.Time)
	if len(waiting) > 0 && age < uninstallGrace {
		message := fmt.Sprintf("waiting for the agents to remove what they made: %s", summary(waiting))
		if meta.SetStatusCondition(&s.config.Status.Conditions, condition(false, ReasonUninstalling, message)) {
			if err := r.Client.Status().Update(ctx, s.config); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
		}
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	controllerutil.RemoveFinalizer(s.config, v1alpha1.Finalizer)
	if err := r.Client.Update(ctx, s.config); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer from fabric config: %w", err)
	}
	return ctrl.Result{}, nil
}

// notTornDown names the existing nodes whose agent has not said TornDown.
func notTornDown(s *state) []string {
	exists := map[string]bool{}
	for i := range s.kubeNodes {
		exists[s.kubeNodes[i].Name] = true
	}
	var waiting []string
	for i := range s.fabricNodes {
		n := &s.fabricNodes[i]
		c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
		if exists[n.Name] && (c == nil || c.Reason != v1alpha1.ReasonTornDown) {
			waiting = append(waiting, n.Name)
		}
	}
	return waiting
}
