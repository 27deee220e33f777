package introduction

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// the one request of the provider's half.
var everything = reconcile.Request{NamespacedName: client.ObjectKey{Name: "introductions"}}

// Wakeup asks both halves for turns from outside of the API server's events.
// Requests before they run are not lost: each begins with all objects.
type Wakeup struct {
	mu       sync.Mutex
	provider workqueue.TypedRateLimitingInterface[reconcile.Request]
	consumer workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Measured says that a measurement has changed. It never blocks.
func (w *Wakeup) Measured() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.provider != nil {
		w.provider.Add(everything)
	}
}

// ChannelChanged says that a channel has. It never blocks.
func (w *Wakeup) ChannelChanged(id v1alpha1.Identity) {
	w.Measured()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.consumer != nil {
		w.consumer.Add(providerRequest(id))
	}
}

// providerRequest asks for a turn of all connections of one provider.
func providerRequest(id v1alpha1.Identity) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: string(id)}}
}

// SetupWithManager registers the reconciler of the provider's half.
func (p *Provider) SetupWithManager(mgr ctrl.Manager, wakeup *Wakeup) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{everything}
	})
	start := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		wakeup.mu.Lock()
		defer wakeup.mu.Unlock()
		wakeup.provider = queue
		queue.Add(everything)
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("introduced").
		Watches(&v1alpha1.ForeignCluster{}, all).
		Watches(&v1alpha1.Neighbor{}, all).
		Watches(&v1alpha1.FabricConfig{}, all).
		WatchesRawSource(source.Func(start)).
		Complete(p)
}

// SetupWithManager registers the reconciler of the consumer's half.
func (c *Consumer) SetupWithManager(mgr ctrl.Manager, wakeup *Wakeup) error {
	twins := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		changed, ok := object.(*v1alpha1.ForeignClusterConnection)
		if !ok {
			return nil
		}
		return c.requests(ctx, func(other *v1alpha1.ForeignClusterConnection) bool { return pairOf(other) == pairOf(changed) })
	})
	named := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		return c.requests(ctx, func(c *v1alpha1.ForeignClusterConnection) bool { return names(c, object.GetName()) })
	})
	start := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		wakeup.mu.Lock()
		defer wakeup.mu.Unlock()
		wakeup.consumer = queue
		queue.Add(reconcile.Request{})
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("introducer").
		For(&v1alpha1.ForeignClusterConnection{}).
		Watches(&v1alpha1.ForeignClusterConnection{}, twins).
		Watches(&v1alpha1.ForeignCluster{}, named).
		WatchesRawSource(source.Func(start)).
		Complete(c)
}

func names(c *v1alpha1.ForeignClusterConnection, cluster string) bool {
	return c.Spec.ForeignClusterA == cluster || c.Spec.ForeignClusterB == cluster
}

// requests returns one for each connection that matches, and the one without a
// name: what is said changes also when there is none any more.
func (c *Consumer) requests(ctx context.Context, matches func(*v1alpha1.ForeignClusterConnection) bool) []reconcile.Request {
	requests := []reconcile.Request{{}}
	var list v1alpha1.ForeignClusterConnectionList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return requests // each has its own resync
	}
	for i := range list.Items {
		if matches(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}})
		}
	}
	return requests
}
