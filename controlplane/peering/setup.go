package peering

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
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
	others := handler.EnqueueRequestsFromMapFunc(r.transiting)
	return ctrl.NewControllerManagedBy(mgr).
		Named("peering").
		For(&v1alpha1.ForeignCluster{}).
		Watches(&v1alpha1.ForeignCluster{}, every, builder.WithPredicates(concernsOthers())).
		Watches(&v1alpha1.Neighbor{}, same).
		Watches(&v1alpha1.Neighbor{}, others, builder.WithPredicates(leadsElsewhere())).
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

// transiting asks for a turn of every ForeignCluster while any two clusters talk
// through a third.
func (r *Reconciler) transiting(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.ForeignClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // each has its own resync
	}
	if !slices.ContainsFunc(list.Items, func(fc v1alpha1.ForeignCluster) bool {
		transit := fc.Spec.Access.Transit
		return transit.UseAsHub || len(transit.Neighbors) > 0 || len(fc.Spec.ReachedThrough) > 0
	}) {
		return nil
	}
	return r.every(ctx)
}

// concernsOthers passes the events of ForeignClusters that concern others: one
// may be a duplicate, or not one any more; a hub, or behind one.
func concernsOthers() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.ForeignCluster)
		after, okAfter := e.ObjectNew.(*v1alpha1.ForeignCluster)
		return okBefore && okAfter && !equality.Semantic.DeepEqual(publicOf(before), publicOf(after))
	}}
}

// public is what turns of other ForeignClusters go by. Its fields are exported
// for equality.Semantic, which reads no others.
type public struct {
	Spec           v1alpha1.ForeignClusterSpec
	Going, Left    bool
	Direct, Ending bool
	Token          string
}

func publicOf(fc *v1alpha1.ForeignCluster) public {
	return public{
		Spec: fc.Spec, Going: !fc.DeletionTimestamp.IsZero(), Left: hasLeft(fc), Direct: direct(fc),
		Ending: pathPolicy(fc, "") == v1alpha1.PathHubOnly, Token: tokenOf(fc),
	}
}

// leadsElsewhere passes the events of Neighbors that concern others: networks and
// index, and which networks of others its rows name.
func leadsElsewhere() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*v1alpha1.Neighbor)
		after, okAfter := e.ObjectNew.(*v1alpha1.Neighbor)
		if !okBefore || !okAfter {
			return false
		}
		a, b := &before.Spec, &after.Spec
		return a.Identity != b.Identity || a.ClusterIndex != b.ClusterIndex || a.MTU != b.MTU ||
			!slices.Equal(a.Networks, b.Networks) || !maps.Equal(namedElsewhere(a), namedElsewhere(b)) ||
			!slices.EqualFunc(a.Peers, b.Peers, func(x, y v1alpha1.NeighborPeer) bool { return x.ChannelAddress == y.ChannelAddress })
	}}
}

type networkIndex struct{ origin, network int32 }

// namedElsewhere is the set of networks of other clusters that rows name.
func namedElsewhere(spec *v1alpha1.NeighborSpec) map[networkIndex]bool {
	named := map[networkIndex]bool{}
	for _, row := range spec.Rows {
		if row.OriginIndex != 0 && row.OriginIndex != spec.ClusterIndex {
			named[networkIndex{row.OriginIndex, row.NetworkIndex}] = true
		}
	}
	return named
}
