package services

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/turn"
)

// Importer makes ServiceImports, derived Services and EndpointSlices of what all
// clusters export. One worker runs it. A request names a service; one without
// namespace a ForeignCluster of which to say what became of its services; the
// empty one asks for all.
type Importer struct {
	Client   client.Client
	Self     v1alpha1.Identity
	Channels Channels
	// Reach of a foreign cluster. What it does not know stands as it was.
	Reach func(*v1alpha1.ForeignCluster, time.Time) Reach
	// Again asks for a turn.
	Again func(types.NamespacedName)
	// Report asks for one of a ForeignCluster, soon.
	Report func(name string)

	book *book

	mu      sync.Mutex
	reached map[v1alpha1.Identity]Reach
	// results of the services of each foreign cluster.
	results map[v1alpha1.Identity]map[types.NamespacedName]result
}

// Reconcile implements reconcile.Reconciler.
func (r *Importer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return turn.Settle(r.reconcile(ctx, request.NamespacedName))
}

func (r *Importer) reconcile(ctx context.Context, name types.NamespacedName) (ctrl.Result, error) {
	if !r.book.isKnown() {
		return ctrl.Result{}, nil // the exporter asks for all once it is
	}
	switch {
	case name.Name == "":
		return r.all(ctx)
	case name.Namespace == "":
		return ctrl.Result{}, r.report(ctx, name.Name)
	}
	config, err := fabric(ctx, r.Client)
	if err != nil || config == nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.one(ctx, config, name)
}

// all asks for a turn of every service that there is or should be, and for another
// of all once it is certain which clusters are reached.
func (r *Importer) all(ctx context.Context) (ctrl.Result, error) {
	names, err := r.Names(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	for name := range names {
		r.Again(name)
	}
	clusters, err := counted(ctx, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	var again ctrl.Result
	for i := range clusters {
		if wait := settling(&clusters[i], time.Now()); wait > 0 && (again.RequeueAfter == 0 || wait < again.RequeueAfter) {
			again.RequeueAfter = wait
		}
	}
	return again, nil
}

// Names returns the services that there are or should be here.
func (r *Importer) Names(ctx context.Context) (map[types.NamespacedName]bool, error) {
	names := map[types.NamespacedName]bool{}
	var imports mcsv1beta1.ServiceImportList
	if err := r.Client.List(ctx, &imports); err != nil {
		return nil, fmt.Errorf("list service imports: %w", err)
	}
	clusters, err := counted(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	r.prune(clusters)
	for i := range imports.Items {
		names[client.ObjectKeyFromObject(&imports.Items[i])] = true
	}
	for _, name := range r.book.names() {
		names[name] = true
	}
	for i := range clusters {
		for _, name := range r.Channels.Services(clusters[i].Spec.Identity) {
			names[name] = true
		}
	}
	return names, nil
}

// prune forgets the clusters that are none any more.
func (r *Importer) prune(clusters []v1alpha1.ForeignCluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := func(id v1alpha1.Identity) bool {
		return !slices.ContainsFunc(clusters, func(fc v1alpha1.ForeignCluster) bool { return fc.Spec.Identity == id })
	}
	maps.DeleteFunc(r.reached, func(id v1alpha1.Identity, _ Reach) bool { return gone(id) })
	maps.DeleteFunc(r.results, func(id v1alpha1.Identity, _ map[types.NamespacedName]result) bool { return gone(id) })
}

// supply is one cluster's part in a service.
type supply struct {
	export Export
	// fc is nil for this cluster.
	fc       *v1alpha1.ForeignCluster
	views    Views
	withheld bool
}

func (r *Importer) one(ctx context.Context, config *v1alpha1.FabricConfig, name types.NamespacedName) error {
	var list discoveryv1.EndpointSliceList
	err := r.Client.List(ctx, &list, client.InNamespace(name.Namespace), client.MatchingLabels{
		discoveryv1.LabelManagedBy: ManagedBy, mcsv1beta1.LabelServiceName: name.Name,
	})
	if err != nil {
		return fmt.Errorf("list the endpoint slices of import %s: %w", name, err)
	}
	supplies, err := r.supplies(ctx, config, name, list.Items)
	if err != nil {
		return err
	}
	merged := mergeSupplies(supplies)
	sources := r.sources(name, merged, supplies)
	if len(supplies) > 0 {
		there, err := r.namespaceExists(ctx, name.Namespace)
		if err != nil {
			return err
		}
		if !there {
			r.note(name, supplies, func(s result) result { s.missing = true; return s })
			return nil // what was in it is gone with it
		}
	}
	if err := r.stateConflict(ctx, name, merged); err != nil {
		return err
	}
	return r.apply(ctx, name, merged, list.Items, sources)
}

// supplies collects what the clusters export under a name. What a peer has not
// spoken of in this life of the process is what its slices say.
func (r *Importer) supplies(ctx context.Context, config *v1alpha1.FabricConfig, name types.NamespacedName, existing []discoveryv1.EndpointSlice) ([]supply, error) {
	var out []supply
	if own := r.book.own(name); own != nil {
		self := Cluster{Identity: r.Self, ID: config.Spec.ClusterID, Name: string(config.Spec.ClusterID)}
		out = append(out, supply{export: Export{Cluster: self, Service: own}})
	}
	clusters, err := counted(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	var neighbors v1alpha1.NeighborList
	if err := r.Client.List(ctx, &neighbors, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list neighbors: %w", err)
	}
	for i := range clusters {
		fc := &clusters[i]
		s := supply{fc: fc, views: ViewsOf(neighborOf(fc, neighbors.Items)), withheld: r.withheld(fc, existing)}
		s.export.Cluster = clusterOf(fc, config.Spec.ClusterID)
		if fc.Spec.Access.Services.Imports(name.Namespace) {
			s.export.Service = r.exportOf(s, name, existing)
		}
		if s.export.Service == nil {
			r.forget(fc, name)
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

func (r *Importer) exportOf(s supply, name types.NamespacedName, existing []discoveryv1.EndpointSlice) *channel.Service {
	if said, heard := r.Channels.Service(s.fc.Spec.Identity, name); heard {
		return said
	}
	return recall(existing, s.export.Cluster, s.views.Original)
}

func neighborOf(fc *v1alpha1.ForeignCluster, neighbors []v1alpha1.Neighbor) *v1alpha1.Neighbor {
	for i := range neighbors {
		if n := &neighbors[i]; n.Name == fc.Name && n.Spec.Identity == fc.Spec.Identity {
			return n
		}
	}
	return nil
}

// reach returns the last finding about a cluster.
func (r *Importer) reach(fc *v1alpha1.ForeignCluster) Reach {
	found := r.Reach(fc, time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reached == nil {
		r.reached = map[v1alpha1.Identity]Reach{}
	}
	if found != ReachUnknown {
		r.reached[fc.Spec.Identity] = found
	}
	return r.reached[fc.Spec.Identity]
}

// withheld reports whether a cluster's endpoints are to be kept out of a service's
// slices. What nobody has found out in this life of the process stays as the
// slices say; what has never been in them waits for an answered probe, unless
// what was measured cannot be read.
func (r *Importer) withheld(fc *v1alpha1.ForeignCluster, existing []discoveryv1.EndpointSlice) bool {
	if found := r.reach(fc); found != ReachUnknown {
		return found == ReachDown
	}
	if withheld, there := withheldBefore(existing, fc.Spec.Identity); there {
		return withheld
	}
	c := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConnected)
	return c == nil || c.Status == metav1.ConditionFalse
}

func mergeSupplies(supplies []supply) Import {
	var exports []Export
	for _, s := range supplies {
		exports = append(exports, s.export)
	}
	return Merge(exports)
}

// sources returns what slices shall hold of each cluster, in local view.
func (r *Importer) sources(name types.NamespacedName, merged Import, supplies []supply) []share {
	var out []share
	if merged.Type != channel.ClusterSetIP {
		return nil
	}
	for _, s := range supplies {
		backends := merged.Backends(s.export.Service)
		without := 0
		if s.fc != nil {
			backends, without = s.views.translate(backends)
		}
		if s.withheld {
			backends = nil
		}
		r.note(name, []supply{s}, func(result) result { return result{withoutView: without} })
		out = append(out, share{cluster: s.export.Cluster, backends: backends, note: note(s.export.Service, s.withheld)})
	}
	return out
}

func (r *Importer) namespaceExists(ctx context.Context, name string) (bool, error) {
	var namespace corev1.Namespace
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &namespace)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read namespace %s: %w", name, err)
	}
	return err == nil && namespace.DeletionTimestamp.IsZero(), nil
}

// stateConflict writes the condition Conflict of this cluster's own export.
func (r *Importer) stateConflict(ctx context.Context, name types.NamespacedName, merged Import) error {
	if r.book.own(name) == nil {
		return nil
	}
	var export mcsv1beta1.ServiceExport
	if err := r.Client.Get(ctx, name, &export); err != nil {
		return client.IgnoreNotFound(err)
	}
	c := merged.conflictCondition()
	c.ObservedGeneration = export.Generation
	if !meta.SetStatusCondition(&export.Status.Conditions, c) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, &export); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of service export %s: %w", name, err)
	}
	return nil
}

// stateImport writes the status of a ServiceImport.
func (r *Importer) stateImport(ctx context.Context, i *mcsv1beta1.ServiceImport, merged Import, reason, message string) error {
	status := i.Status.DeepCopy()
	c := metav1.Condition{
		Type: string(mcsv1beta1.ServiceImportConditionReady), Status: metav1.ConditionTrue,
		Reason: string(mcsv1beta1.ServiceImportReasonReady), Message: "the clusters' endpoints are reached at the IP", ObservedGeneration: i.Generation,
	}
	if reason != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, message
	}
	meta.SetStatusCondition(&i.Status.Conditions, c)
	if next := merged.clusterStatuses(); !slices.Equal(next, i.Status.Clusters) {
		i.Status.Clusters = next
	}
	i.Status.EndpointSliceObjects = mcsv1beta1.EndpointSliceObjectsPresent
	if merged.Type != channel.ClusterSetIP {
		i.Status.EndpointSliceObjects = mcsv1beta1.EndpointSliceObjectsAbsent
	}
	if same(status, &i.Status) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, i); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of service import %s: %w", client.ObjectKeyFromObject(i), err)
	}
	return nil
}
