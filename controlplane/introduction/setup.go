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
	mu        sync.Mutex
	provider  workqueue.TypedRateLimitingInterface[reconcile.Request]
	consumer  workqueue.TypedRateLimitingInterface[reconcile.Request]
	consumers func() []reconcile.Request
}

// Changed says that a channel or a measurement has changed. It never blocks.
func (w *Wakeup) Changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.provider != nil {
		w.provider.Add(everything)
	}
	if w.consumer != nil {
		for _, request := range w.consumers() {
			w.consumer.Add(request)
		}
	}
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

// SetupWithManager registers the reconciler of the consumer's half. What happens
// to a ForeignCluster may concern every connection.
func (c *Consumer) SetupWithManager(mgr ctrl.Manager, wakeup *Wakeup) error {
	every := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return c.every(ctx)
	})
	start := func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		wakeup.mu.Lock()
		defer wakeup.mu.Unlock()
		wakeup.consumer = queue
		wakeup.consumers = func() []reconcile.Request { return c.every(ctx) }
		queue.Add(reconcile.Request{})
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("introducer").
		For(&v1alpha1.ForeignClusterConnection{}).
		Watches(&v1alpha1.ForeignClusterConnection{}, every).
		Watches(&v1alpha1.ForeignCluster{}, every).
		WatchesRawSource(source.Func(start)).
		Complete(c)
}

// every returns a request for each connection, and the one without a name, which
// notes that there is none any more.
func (c *Consumer) every(ctx context.Context) []reconcile.Request {
	requests := []reconcile.Request{{}}
	var list v1alpha1.ForeignClusterConnectionList
	if err := c.Client.List(ctx, &list); err != nil {
		return requests // each has its own resync
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}})
	}
	return requests
}
