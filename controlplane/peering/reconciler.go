package peering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/fabric"
	"github.com/weft-fabric/weft/controlplane/ipam"
	"github.com/weft-fabric/weft/controlplane/measure"
	"github.com/weft-fabric/weft/controlplane/turn"
)

// Channels is what the reconciler needs of channel.Manager.
type Channels interface {
	SetPeer(channel.Peer)
	RemovePeer(v1alpha1.Identity)
	Status(v1alpha1.Identity) channel.Status
	MarkLeft(v1alpha1.Identity)
	Goodbye(context.Context, v1alpha1.Identity) error
}

// Reconciler makes a Neighbor from each ForeignCluster. One worker runs it;
// nothing in it waits for a peer.
type Reconciler struct {
	Client client.Client
	// Reader is uncached.
	Reader   client.Reader
	Claims   ipam.Store
	Self     v1alpha1.Identity
	Channels Channels
	View     func() measure.View
	Now      func() time.Time
	// Again asks for another turn of a ForeignCluster.
	Again func(name string)

	mu sync.Mutex
	// memory by ForeignCluster name; lost at restart without harm.
	memory map[string]*memory
}

// memory is what one ForeignCluster's turns hand on.
type memory struct {
	uid       types.UID
	identity  v1alpha1.Identity
	peered    bool // the channel manager knows it
	announced []channel.Offer
	wrote     time.Time
	farewell  farewell
	pace      pace
	// again, if not 0, is when to look anew.
	again time.Duration
}

// snapshot is what one turn looks at.
type snapshot struct {
	config    *v1alpha1.FabricConfig
	nodes     []v1alpha1.FabricNode
	alive     map[string]bool // nodes whose kubelet is ready
	clusters  []v1alpha1.ForeignCluster
	neighbors []v1alpha1.Neighbor
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return turn.Settle(r.reconcile(ctx, request))
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var fc v1alpha1.ForeignCluster
	if err := r.Client.Get(ctx, request.NamespacedName, &fc); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.orphan(ctx, request.Name)
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read foreign cluster %s: %w", request.Name, err)
	}
	m := r.remember(&fc)
	if !fc.DeletionTimestamp.IsZero() {
		return r.teardown(ctx, &fc, m)
	}
	s, err := r.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := fc.Status.DeepCopy()
	problem := r.peer(ctx, &fc, s, m)
	if err := r.writeStatus(ctx, &fc, before, m); err != nil {
		return ctrl.Result{}, err
	}
	if m.again > 0 && problem == nil {
		return ctrl.Result{RequeueAfter: m.again}, nil
	}
	return ctrl.Result{RequeueAfter: figuresEvery}, problem
}

func (r *Reconciler) remember(fc *v1alpha1.ForeignCluster) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory == nil {
		r.memory = map[string]*memory{}
	}
	m := r.memory[fc.Name]
	if m == nil || m.uid != fc.UID {
		if m != nil && m.peered && m.identity != fc.Spec.Identity {
			r.Channels.RemovePeer(m.identity)
		}
		m = &memory{uid: fc.UID, identity: fc.Spec.Identity}
		r.memory[fc.Name] = m
	}
	return m
}

// named returns the ForeignCluster that a peer's identity belongs to.
func (r *Reconciler) named(id v1alpha1.Identity) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.memory {
		if m.identity == id && m.peered {
			return name, true
		}
	}
	return "", false
}

func (r *Reconciler) read(ctx context.Context) (*snapshot, error) {
	var configs v1alpha1.FabricConfigList
	var nodes v1alpha1.FabricNodeList
	var kubeNodes corev1.NodeList
	var clusters v1alpha1.ForeignClusterList
	var neighbors v1alpha1.NeighborList
	for what, list := range map[string]client.ObjectList{
		"fabric configs": &configs, "fabric nodes": &nodes, "nodes": &kubeNodes, "foreign clusters": &clusters, "neighbors": &neighbors,
	} {
		if err := r.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, err)
		}
	}
	s := &snapshot{nodes: nodes.Items, alive: fabric.ReadyNodes(kubeNodes.Items), clusters: clusters.Items, neighbors: neighbors.Items}
	for i := range configs.Items {
		if c := &configs.Items[i]; c.Name == v1alpha1.FabricConfigName && c.DeletionTimestamp.IsZero() && c.Status.Identity != "" {
			s.config = c
		}
	}
	return s, nil
}

// peer takes a ForeignCluster as far as it goes now and fills in its status.
func (r *Reconciler) peer(ctx context.Context, fc *v1alpha1.ForeignCluster, s *snapshot, m *memory) error {
	said, wait := m.pace.take(r.Channels.Status(fc.Spec.Identity).Said, r.Now())
	m.again = wait
	verdict := Assess(fc, s.clusters, r.Self, said.Record)
	r.stateVerdict(fc, verdict)
	switch {
	case !verdict.Usable():
		r.stateUnusable(fc, s, verdict)
		return nil
	case s.config == nil:
		wait := no(ReasonNoFabric, "this cluster's own FabricConfig is not ready yet: see `weftctl status`")
		for _, kind := range []string{v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady, v1alpha1.ConditionConnected} {
			wait.set(&fc.Status, kind, fc.Generation)
		}
		return nil
	}
	if controllerutil.AddFinalizer(fc, v1alpha1.Finalizer) {
		status := fc.Status.DeepCopy()
		if err := r.Client.Update(ctx, fc); err != nil {
			return fmt.Errorf("add finalizer to foreign cluster %s: %w", fc.Name, err)
		}
		fc.Status = *status
	}
	neighbor, prefixProblem, err := r.ensureNeighbor(ctx, fc, s, verdict.Record, said)
	if errors.As(err, new(hopeless)) {
		r.stateHopeless(fc, s, err)
		return nil
	}
	if err != nil {
		return err
	}
	if errors.Is(prefixProblem, errMoreLater) {
		prefixProblem, m.again = nil, claimPause
	}
	placed, waiting := inPlace(neighbor, s.nodes, func(n *v1alpha1.FabricNode) bool { return s.alive[n.Name] && fabric.AgentReady(n) })
	m.announced = nextAnnounced(offersOf(&neighbor.Spec), m.announced, placed)
	r.talk(fc, s, m, verdict.Record)
	status := r.Channels.Status(fc.Spec.Identity)
	r.stateProgress(fc, neighbor, status, exchange{
		name: fc.Name, spec: &neighbor.Spec, own: s.config.Status.Networks, channel: status,
		prefixes: prefixProblem, inPlace: placed, waiting: waiting,
	})
	return prefixProblem
}

// talk tells the channel manager what to say to the peer and where it is.
func (r *Reconciler) talk(fc *v1alpha1.ForeignCluster, s *snapshot, m *memory, record *identity.Record) {
	peer := channel.Peer{
		Identity: fc.Spec.Identity, Name: fc.Name,
		Say: channel.Snapshot{
			Record:   s.config.Status.Record,
			Networks: ownNetworks(s.config),
			Offers:   m.announced,
			MTU:      fabric.MTU(s.nodes),
		},
	}
	for _, id := range gatewayIDs(record) {
		peer.Routes = append(peer.Routes, channel.Route{Target: identity.ChannelAddress(fc.Spec.Identity, id)})
	}
	r.Channels.SetPeer(peer)
	first := !m.peered
	r.mu.Lock()
	m.peered = true
	r.mu.Unlock()
	if c := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionChannelReady); first && c != nil && c.Reason == ReasonPeerLeft {
		r.Channels.MarkLeft(fc.Spec.Identity)
	}
}

func (r *Reconciler) writeStatus(ctx context.Context, fc *v1alpha1.ForeignCluster, before *v1alpha1.ForeignClusterStatus, m *memory) error {
	now := r.Now()
	if !worthWriting(before, &fc.Status, now.Sub(m.wrote)) {
		return nil
	}
	if !m.pace.write(now) {
		m.again = writeEvery
		return nil
	}
	if err := r.Client.Status().Update(ctx, fc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of foreign cluster %s: %w", fc.Name, err)
	}
	m.wrote = now
	return nil
}
