package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

const (
	// crdPause is between two looks for the API of services, where nobody has
	// installed it.
	crdPause = 5 * time.Second
	// reportAfter gathers what became of many services into one write.
	reportAfter = 2 * time.Second
	// A peer may have this many of its services looked at in a second, after a burst
	// of as many as it may have: each look may write several objects. What changes
	// faster is looked at later, the newest state only; what would wait longer than
	// paceMost, with everything else after that time.
	paceRate  = 20
	paceBurst = channel.MaxServices
	paceMost  = time.Minute
	// What a peer answers to ours is written on the exports, which have more urgent
	// turns too: so many in a second, after a burst.
	answerRate  = 2
	answerBurst = 100
	// A turn that fails is tried again after retryFirst, then each time after twice
	// as long, up to retryMost: what is refused for a while (by an API server that
	// was away, a quota, a webhook) shall not wait for a quarter of an hour after it.
	retryFirst = 10 * time.Millisecond
	retryMost  = 20 * time.Second
)

// retries is how both controllers try again.
func retries() controller.Options {
	return controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost)}
}

// Services is both halves, and what wakes them from outside of the API server's
// events. Requests before they run are not lost: each begins with all objects.
type Services struct {
	Exporter *Exporter
	Importer *Importer
	Log      *slog.Logger

	mu               sync.Mutex
	exports, imports workqueue.TypedRateLimitingInterface[reconcile.Request]
	// paces by peer, and when its services that wait have their turns; answers are
	// the paces of what it answers.
	paces, answers map[v1alpha1.Identity]*rate.Limiter
	due            map[v1alpha1.Identity]map[types.NamespacedName]time.Time
}

// New wires the two halves. Channels are set before they run.
func New(c client.Client, self v1alpha1.Identity, log *slog.Logger) *Services {
	b := &book{exported: map[types.NamespacedName]Exported{}}
	s := &Services{
		Log: log, paces: map[v1alpha1.Identity]*rate.Limiter{}, answers: map[v1alpha1.Identity]*rate.Limiter{},
		due: map[v1alpha1.Identity]map[types.NamespacedName]time.Time{},
	}
	s.Exporter = &Exporter{Client: c, book: b, Changed: s.Again, Known: func() { s.Again(types.NamespacedName{}) }}
	s.Importer = &Importer{Client: c, Self: self, Reach: Reached, book: b, Again: s.Again, Report: s.report}
	return s
}

// SetChannels gives both halves the channels to the peers.
func (s *Services) SetChannels(channels Channels) {
	s.Exporter.Channels, s.Importer.Channels = channels, channels
}

// Again asks for an import's turn. It never blocks.
func (s *Services) Again(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.imports != nil {
		s.imports.Add(reconcile.Request{NamespacedName: name})
	}
}

func (s *Services) report(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.imports != nil {
		s.imports.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: cluster}}, reportAfter)
	}
}

// ChannelChanged takes what has changed of a peer's services. It never blocks.
func (s *Services) ChannelChanged(id v1alpha1.Identity, e channel.ServiceEvent) {
	switch {
	case e.Heard && e.All:
		s.Again(types.NamespacedName{})
	case e.Heard:
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range e.Names {
			s.heard(id, name)
		}
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range e.Names {
			if s.exports != nil {
				s.exports.AddAfter(reconcile.Request{NamespacedName: name}, paced(s.answers, id, answerRate, answerBurst))
			}
		}
	}
}

// heard asks for the turn of a peer's service, once for all changes before it: a
// service that changes over and over uses up no more than one turn at a time.
func (s *Services) heard(id v1alpha1.Identity, name types.NamespacedName) {
	now := time.Now()
	if s.imports == nil || s.due[id][name].After(now) {
		return
	}
	wait := s.pace(id)
	if wait == paceMost {
		s.imports.AddAfter(reconcile.Request{}, wait) // names without end wait as one
		return
	}
	if s.due[id] == nil {
		s.due[id] = map[types.NamespacedName]time.Time{}
	}
	if len(s.due[id]) > 4*paceBurst {
		maps.DeleteFunc(s.due[id], func(_ types.NamespacedName, at time.Time) bool { return !at.After(now) })
	}
	s.due[id][name] = now.Add(wait)
	s.imports.AddAfter(reconcile.Request{NamespacedName: name}, wait)
}

// pace says how long a peer's next service has to wait.
func (s *Services) pace(id v1alpha1.Identity) time.Duration {
	return paced(s.paces, id, paceRate, paceBurst)
}

func paced(limiters map[v1alpha1.Identity]*rate.Limiter, id v1alpha1.Identity, perSecond rate.Limit, burst int) time.Duration {
	if limiters[id] == nil {
		limiters[id] = rate.NewLimiter(perSecond, burst)
	}
	reservation := limiters[id].Reserve()
	wait := reservation.Delay()
	if wait > paceMost {
		reservation.Cancel()
		return paceMost
	}
	return wait
}

// Start implements manager.Runnable: it adds the controllers once the API server
// knows the API of services. Without it the rest of the fabric works.
func (s *Services) Start(mgr ctrl.Manager) func(context.Context) error {
	return func(ctx context.Context) error {
		for said := false; !served(mgr.GetRESTMapper()); {
			if !said {
				s.Log.Warn("multi-cluster services wait for the CRDs of " + mcsv1beta1.GroupName + ": run weftctl install again")
				said = true
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(crdPause):
			}
		}
		return s.SetupWithManager(mgr)
	}
}

func served(mapper meta.RESTMapper) bool {
	for _, kind := range []string{mcsv1beta1.ServiceExportKindName, mcsv1beta1.ServiceImportKindName} {
		_, err := mapper.RESTMapping(schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: kind}, mcsv1beta1.GroupVersion.Version)
		if err != nil {
			return false
		}
	}
	return true
}

// SetupWithManager registers both reconcilers.
func (s *Services) SetupWithManager(mgr ctrl.Manager) error {
	if err := errors.Join(s.setupExporter(mgr), s.setupImporter(mgr)); err != nil {
		return fmt.Errorf("set up the controllers of services: %w", err)
	}
	return nil
}

// start keeps a queue, and asks for all.
func (s *Services) start(queue *workqueue.TypedRateLimitingInterface[reconcile.Request]) source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		*queue = q
		q.Add(reconcile.Request{})
		return nil
	})
}

func (s *Services) setupExporter(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("service-exports").
		For(&mcsv1beta1.ServiceExport{}).
		Watches(&corev1.Service{}, requests(client.ObjectKeyFromObject), builder.WithPredicates(others())).
		Watches(&discoveryv1.EndpointSlice{}, requests(func(object client.Object) types.NamespacedName {
			return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetLabels()[discoveryv1.LabelServiceName]}
		}), builder.WithPredicates(others())).
		Watches(&v1alpha1.ForeignCluster{}, all, builder.WithPredicates(changes(policyOf))).
		Watches(&v1alpha1.FabricConfig{}, all, builder.WithPredicates(changes(networksOf))).
		Watches(&v1alpha1.FabricNode{}, all, builder.WithPredicates(changes(fabricAddressOf))).
		Watches(&corev1.Node{}, all, builder.WithPredicates(changes(addressesOf))).
		WatchesRawSource(s.start(&s.exports)).
		WithOptions(retries()).
		Complete(s.Exporter)
}

func (s *Services) setupImporter(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	derived := requests(func(object client.Object) types.NamespacedName {
		return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetLabels()[mcsv1beta1.LabelServiceName]}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("service-imports").
		For(&mcsv1beta1.ServiceImport{}).
		Watches(&corev1.Service{}, derived, builder.WithPredicates(predicate.NewPredicateFuncs(isOurs))).
		Watches(&discoveryv1.EndpointSlice{}, derived, builder.WithPredicates(predicate.NewPredicateFuncs(isOurs))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(s.inNamespace), builder.WithPredicates(changes(goingOf))).
		Watches(&v1alpha1.ForeignCluster{}, all, builder.WithPredicates(changes(standingOf))).
		Watches(&v1alpha1.Neighbor{}, all, builder.WithPredicates(changes(viewsOf))).
		Watches(&v1alpha1.FabricConfig{}, all, builder.WithPredicates(changes(networksOf))).
		WatchesRawSource(s.start(&s.imports)).
		WithOptions(retries()).
		Complete(s.Importer)
}

// inNamespace asks for turns of the services in a namespace.
func (s *Services) inNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	names, err := s.Importer.Names(ctx)
	if err != nil {
		return nil
	}
	var out []reconcile.Request
	for name := range names {
		if name.Namespace == namespace.GetName() {
			out = append(out, reconcile.Request{NamespacedName: name})
		}
	}
	return out
}

// requests asks for a turn of what an object belongs to, if that has a name.
func requests(of func(client.Object) types.NamespacedName) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		name := of(object)
		if name.Name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: name}}
	})
}

func isOurs(object client.Object) bool { return ours(object) }

// others passes what Weft has not made.
func others() predicate.Predicate {
	return predicate.Not(predicate.NewPredicateFuncs(isOurs))
}

// changes passes the updates that change something of an object, and all else.
// What of returns has exported fields only, for equality.Semantic.
func changes(of func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(of(e.ObjectOld), of(e.ObjectNew))
	}}
}

// policy is what the exporter goes by of a ForeignCluster.
type policy struct {
	Counts   bool
	Services v1alpha1.ServicesSpec
}

func policyOf(object client.Object) any {
	fc, ok := object.(*v1alpha1.ForeignCluster)
	if !ok {
		return nil
	}
	return policy{counts(fc), fc.Spec.Access.Services}
}

// standing is what the importer goes by.
type standing struct {
	Policy policy
	ID     v1alpha1.ClusterID
	Reach  Reach
	// Down is told from an unknown reach, since it is what counts in a while.
	Down bool
}

func standingOf(object client.Object) any {
	fc, ok := object.(*v1alpha1.ForeignCluster)
	if !ok {
		return nil
	}
	connected := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConnected)
	return standing{policy{counts(fc), fc.Spec.Access.Services}, fc.Status.ClusterID, Reached(fc, time.Now()), isDown(connected)}
}

func networksOf(object client.Object) any {
	config, ok := object.(*v1alpha1.FabricConfig)
	if !ok {
		return nil
	}
	return config.Status.Networks
}

func fabricAddressOf(object client.Object) any {
	n, ok := object.(*v1alpha1.FabricNode)
	if !ok {
		return nil
	}
	return [2]string{n.Spec.FabricAddress, n.Status.UnderlayAddress}
}

func addressesOf(object client.Object) any {
	n, ok := object.(*corev1.Node)
	if !ok {
		return nil
	}
	return n.Status.Addresses
}

func viewsOf(object client.Object) any {
	n, ok := object.(*v1alpha1.Neighbor)
	if !ok {
		return nil
	}
	return n.Spec.Networks
}

func goingOf(object client.Object) any { return object.GetDeletionTimestamp().IsZero() }
