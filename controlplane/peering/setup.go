package peering

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/turn"
)

// SetupWithManager registers the reconciler. Changes of our own side concern
// every ForeignCluster; events of the channel and the probes come by the wakeup.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, wakeup *Wakeup) error {
	every := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return r.every(ctx)
	})
	same := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: object.GetName()}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("peering").
		For(&v1alpha1.ForeignCluster{}).
		Watches(&v1alpha1.ForeignCluster{}, every, builder.WithPredicates(appearsOrGoes())).
		Watches(&v1alpha1.Neighbor{}, same).
		Watches(&v1alpha1.FabricConfig{}, every).
		Watches(&v1alpha1.FabricNode{}, every, builder.WithPredicates(turn.FabricNodeChanged())).
		WatchesRawSource(source.Func(wakeup.start)).
		Complete(r)
}

func (r *Reconciler) every(ctx context.Context) []reconcile.Request {
	var list v1alpha1.ForeignClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // each has its own resync
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}})
	}
	return requests
}

// Wakeup asks for turns from outside of the API server's events. Requests
// before the controller runs are not lost to it: it begins with all objects.
type Wakeup struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (w *Wakeup) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// Again asks for a turn of one ForeignCluster. It never blocks.
func (w *Wakeup) Again(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
}

// All asks for a turn of every peered ForeignCluster.
func (r *Reconciler) All() {
	r.mu.Lock()
	var names []string
	for name := range r.memory {
		names = append(names, name)
	}
	r.mu.Unlock()
	for _, name := range names {
		r.Again(name)
	}
}

// ChannelChanged asks for a turn of the ForeignCluster with this identity.
func (r *Reconciler) ChannelChanged(id v1alpha1.Identity) {
	if name, ok := r.named(id); ok {
		r.Again(name)
	}
}

// appearsOrGoes passes the events after which another ForeignCluster may be a
// duplicate, or not one any more.
func appearsOrGoes() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}
