package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/identity"
	"github.com/weft-fabric/weft/controlplane/ipam"
	"github.com/weft-fabric/weft/controlplane/turn"
)

const (
	// reportGrace is how long the first allocation waits for every agent to say
	// what its node occupies.
	reportGrace = 20 * time.Second
	// uninstallGrace is how long FabricConfig's deletion waits for the agents.
	uninstallGrace = 60 * time.Second
	retryNotReady  = 5 * time.Second
	resync         = 2 * time.Minute
)

// Reconciler writes FabricConfig's status.
type Reconciler struct {
	Client client.Client
	// Reader is uncached.
	Reader client.Reader
	Claims ipam.Store
	Self   identity.Self
	// ChannelEndpoint is this process's own, address:port.
	ChannelEndpoint string
	Now             func() time.Time
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: v1alpha1.FabricConfigName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("fabric").
		For(&v1alpha1.FabricConfig{}).
		Watches(&corev1.Node{}, all).
		Watches(&v1alpha1.FabricNode{}, all, builder.WithPredicates(turn.FabricNodeChanged())).
		Complete(r)
}

// state is what one turn looks at.
type state struct {
	config      *v1alpha1.FabricConfig
	kubeNodes   []corev1.Node
	fabricNodes []v1alpha1.FabricNode
	neighbors   []v1alpha1.Neighbor
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return turn.Settle(r.reconcile(ctx, request))
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s, err := r.read(ctx, request.Name)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	if !s.config.DeletionTimestamp.IsZero() {
		return r.teardown(ctx, s)
	}
	if controllerutil.AddFinalizer(s.config, v1alpha1.Finalizer) {
		if err := r.Client.Update(ctx, s.config); err != nil {
			return ctrl.Result{}, fmt.Errorf("add finalizer to fabric config: %w", err)
		}
	}
	before := s.config.Status.DeepCopy()
	ready, problem := r.fill(ctx, s)
	ready.ObservedGeneration = s.config.Generation
	meta.SetStatusCondition(&s.config.Status.Conditions, ready)
	if !equality.Semantic.DeepEqual(before, &s.config.Status) {
		if err := r.Client.Status().Update(ctx, s.config); err != nil {
			return ctrl.Result{}, fmt.Errorf("write fabric config's status: %w", err)
		}
	}
	if problem != nil {
		return ctrl.Result{}, problem
	}
	if ready.Status != metav1.ConditionTrue {
		return ctrl.Result{RequeueAfter: retryNotReady}, nil
	}
	return ctrl.Result{RequeueAfter: resync}, nil
}

func (r *Reconciler) read(ctx context.Context, name string) (*state, error) {
	s := &state{config: &v1alpha1.FabricConfig{}}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, s.config); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var kubeNodes corev1.NodeList
	var fabricNodes v1alpha1.FabricNodeList
	var neighbors v1alpha1.NeighborList
	for what, list := range map[string]client.ObjectList{"nodes": &kubeNodes, "fabric nodes": &fabricNodes, "neighbors": &neighbors} {
		if err := r.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, err)
		}
	}
	s.kubeNodes, s.fabricNodes, s.neighbors = kubeNodes.Items, fabricNodes.Items, neighbors.Items
	return s, nil
}

// fill updates the status and returns the condition Ready. What cannot be found
// out now stays as it was; the error asks for another turn.
func (r *Reconciler) fill(ctx context.Context, s *state) (metav1.Condition, error) {
	status := &s.config.Status
	status.Identity = r.Self.ID
	status.ChannelEndpoint = r.ChannelEndpoint
	detected, err := Detect(ctx, r.Reader)
	if err != nil {
		return condition(false, ReasonError, err.Error()), err
	}
	networks, err := Exported(&s.config.Spec, detected.Pods, netip.Prefix{})
	if err != nil {
		return condition(false, ReasonNetworks, err.Error()), nil
	}
	inUse := IndexesInUse(s.neighbors)
	if !r.reported(s) {
		status.Networks = AssignIndexes(networks, status.Networks, inUse)
		return condition(false, ReasonAgentsNotReady, "waiting for the agents to report what their nodes occupy; are the weft-agent pods running?"), nil
	}
	node, err := r.nodeNetwork(ctx, s, networks, detected)
	if err != nil {
		reason := ReasonError
		if errors.Is(err, ipam.ErrExhausted) {
			reason = ReasonPoolExhausted
		}
		return condition(false, reason, "claim the node network: "+err.Error()), err
	}
	networks, err = Exported(&s.config.Spec, detected.Pods, node)
	if err != nil {
		return condition(false, ReasonNetworks, err.Error()), nil
	}
	if err := collision(networks, node, s.neighbors); err != nil {
		return condition(false, ReasonNetworks, err.Error()), nil // what was exported before stands
	}
	status.Networks = AssignIndexes(networks, status.Networks, inUse)
	if err := r.record(s); err != nil {
		return condition(false, ReasonError, err.Error()), err
	}
	if err := identity.CheckEndpoints(s.config.Spec.Gateways); err != nil {
		return condition(false, ReasonEndpoints, err.Error()), nil
	}
	return readiness(s.config, s.kubeNodes, s.fabricNodes), nil
}

// reported says whether it is known what the nodes occupy: every agent of a
// ready node has told, or the grace is over, or an allocation was made before.
func (r *Reconciler) reported(s *state) bool {
	for _, n := range s.config.Status.Networks {
		if n.Kind == v1alpha1.NetworkNode {
			return true
		}
	}
	if r.Now().Sub(s.config.CreationTimestamp.Time) > reportGrace {
		return true
	}
	alive, told := ReadyNodes(s.kubeNodes), 0
	for i := range s.fabricNodes {
		if n := &s.fabricNodes[i]; alive[n.Name] {
			if n.Status.UnderlayAddress == "" {
				return false
			}
			told++
		}
	}
	return told > 0
}

func (r *Reconciler) nodeNetwork(ctx context.Context, s *state, networks []v1alpha1.OwnNetwork, detected Detected) (netip.Prefix, error) {
	avoid := Avoid(s.config, s.fabricNodes, s.neighbors, detected.Taken())
	for _, n := range networks {
		avoid = append(avoid, ipam.ParsePrefixes([]v1alpha1.CIDR{n.CIDR})...)
	}
	return ipam.Claim(ctx, r.Claims, ipam.Request{
		Key:   v1alpha1.PrefixClaimSpec{Purpose: v1alpha1.ClaimNodeNetwork, Network: v1alpha1.NodeNetworkName},
		Bits:  int(s.config.Spec.NodeNetworkPrefixLength),
		Pools: ipam.ParsePrefixes(s.config.Spec.Pools),
		Avoid: avoid,
	})
}

// record signs a new record if its content changed. Without a gateway that has
// a key there is nothing to say, and what was said stands.
func (r *Reconciler) record(s *state) error {
	gateways := identity.Gateways(s.config.Spec.Gateways, s.fabricNodes, externalAddresses(s.kubeNodes))
	if len(gateways) == 0 {
		return nil
	}
	record, err := identity.Record(r.Self, s.config.Spec.ClusterID, gateways, s.config.Status.Record, r.Now())
	if err != nil {
		return err
	}
	s.config.Status.Record = record
	return nil
}

// externalAddresses returns the public addresses that the nodes' provider told.
func externalAddresses(kubeNodes []corev1.Node) map[string][]string {
	out := map[string][]string{}
	for i := range kubeNodes {
		for _, a := range kubeNodes[i].Status.Addresses {
			if a.Type == corev1.NodeExternalIP {
				out[kubeNodes[i].Name] = append(out[kubeNodes[i].Name], a.Address)
			}
		}
	}
	return out
}
