package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/turn"
)

// resync makes a gateway that is not ready lose its role in time.
const resync = 30 * time.Second

// Reconciler writes the spec of every FabricNode. It looks at all nodes at
// once, because addresses and ids must differ.
type Reconciler struct {
	Client client.Client
	Now    func() time.Time
	// since is when gateways began to retire; lost at restart, which only makes
	// it last longer.
	since time.Time
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: v1alpha1.FabricConfigName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("nodes").
		For(&v1alpha1.FabricConfig{}).
		Watches(&corev1.Node{}, all).
		Watches(&v1alpha1.FabricNode{}, all, builder.WithPredicates(turn.FabricNodeChanged())).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return turn.Settle(r.reconcile(ctx, request))
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var config v1alpha1.FabricConfig
	if err := r.Client.Get(ctx, request.NamespacedName, &config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var nodes corev1.NodeList
	var existing v1alpha1.FabricNodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return ctrl.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	if err := r.Client.List(ctx, &existing); err != nil {
		return ctrl.Result{}, fmt.Errorf("list fabric nodes: %w", err)
	}
	in := Input{
		Nodes:    nodes.Items,
		Existing: existing.Items,
		Gateways: config.Spec.Gateways,
		Network:  NodeNetwork(&config),
		Now:      r.Now(),
	}
	var err error
	if in.Drained, err = r.drained(ctx, in); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: resync}, r.write(ctx, nodes.Items, existing.Items, Assign(in))
}

// drained reports whether peers have had time to learn of the gateways that
// replace others.
func (r *Reconciler) drained(ctx context.Context, in Input) (bool, error) {
	if !retiring(in) {
		r.since = time.Time{}
		return false, nil
	}
	if r.since.IsZero() {
		r.since = in.Now
	}
	age := in.Now.Sub(r.since)
	if age < drainFor || age >= drainMost {
		return age >= drainMost, nil
	}
	var clusters v1alpha1.ForeignClusterList
	if err := r.Client.List(ctx, &clusters); err != nil {
		return false, fmt.Errorf("list foreign clusters: %w", err)
	}
	for i := range clusters.Items {
		if meta.IsStatusConditionFalse(clusters.Items[i].Status.Conditions, v1alpha1.ConditionChannelReady) {
			return false, nil
		}
	}
	return true, nil
}

// NodeNetwork returns the CIDR of the own network of kind Node, or an invalid
// prefix if there is none yet.
func NodeNetwork(config *v1alpha1.FabricConfig) netip.Prefix {
	for _, n := range config.Status.Networks {
		if n.Kind == v1alpha1.NetworkNode {
			p, _ := netip.ParsePrefix(string(n.CIDR))
			return p
		}
	}
	return netip.Prefix{}
}

// write makes the API server's FabricNodes the wanted ones. Deletions come
// first, so that an address is never on two objects.
func (r *Reconciler) write(ctx context.Context, nodes []corev1.Node, existing []v1alpha1.FabricNode, wanted map[string]v1alpha1.FabricNodeSpec) error {
	have := map[string]*v1alpha1.FabricNode{}
	for i := range existing {
		n := &existing[i]
		have[n.Name] = n
		if _, ok := wanted[n.Name]; ok {
			continue
		}
		if err := r.Client.Delete(ctx, n, client.Preconditions{UID: &n.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete fabric node %s: %w", n.Name, err)
		}
	}
	for i := range nodes {
		spec, ok := wanted[nodes[i].Name]
		if !ok {
			continue
		}
		if err := r.writeOne(ctx, &nodes[i], have[nodes[i].Name], spec); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) writeOne(ctx context.Context, node *corev1.Node, have *v1alpha1.FabricNode, spec v1alpha1.FabricNodeSpec) error {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	if have == nil {
		created := &v1alpha1.FabricNode{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{owner}},
			Spec:       spec,
		}
		if err := r.Client.Create(ctx, created); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create fabric node %s: %w", node.Name, err)
		}
		return nil
	}
	owned := len(have.OwnerReferences) == 1 && have.OwnerReferences[0] == owner
	if have.Spec == spec && owned {
		return nil
	}
	changed := have.DeepCopy()
	changed.Spec = spec
	changed.OwnerReferences = []metav1.OwnerReference{owner} // a node made anew under the same name has another UID
	if err := r.Client.Update(ctx, changed); err != nil {
		return fmt.Errorf("update fabric node %s: %w", node.Name, err)
	}
	return nil
}
