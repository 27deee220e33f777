package peering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
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
	// Introductions and Reports are what a peer is told of introductions; nil, or
	// with a nil result: not known. They must not block.
	Introductions func(v1alpha1.Identity) []channel.Introduction
	Reports       func(v1alpha1.Identity) []channel.Report

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
	// said is what the turns go by, told what others' turns need of it; for shared,
	// they have been asked for.
	said         channel.Snapshot
	told, shared told
	// offDirect: nothing is sent over tunnels to it any more, or there are none.
	offDirect channel.OffDirect
	// again, if not 0, is when to look anew.
	again time.Duration
}

// soon asks for another turn after d at the latest.
func (m *memory) soon(d time.Duration) {
	if d > 0 && (m.again == 0 || d < m.again) {
		m.again = d
	}
}

// snapshot is what one turn looks at.
type snapshot struct {
	config    *v1alpha1.FabricConfig
	nodes     []v1alpha1.FabricNode
	alive     map[string]bool // nodes whose kubelet is ready
	clusters  []v1alpha1.ForeignCluster
	neighbors []v1alpha1.Neighbor
	// told by the clusters of ForeignClusters, by name.
	told map[string]told
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
	r.listen(&fc, m)
	s, err := r.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.wakeRelated(s, &fc, m.shared, m.told)
	m.shared = m.told
	if deleted, err := r.tend(ctx, &fc, s); deleted || err != nil {
		return ctrl.Result{}, err
	}
	status := fc.Status.DeepCopy()
	problem := r.peer(ctx, &fc, s, m)
	if err := r.writeStatus(ctx, &fc, status, m); err != nil {
		return ctrl.Result{}, err
	}
	if problem == nil {
		problem = r.discover(ctx, &fc, s, m)
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
		m = &memory{uid: fc.UID, identity: fc.Spec.Identity, pace: newPace()}
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
	s.told = r.heard(s.clusters)
	return s, nil
}

// peer takes a ForeignCluster as far as it goes now and fills in its status.
func (r *Reconciler) peer(ctx context.Context, fc *v1alpha1.ForeignCluster, s *snapshot, m *memory) error {
	verdict := Assess(fc, s.clusters, r.Self, s.recordsOf(fc, m.said.Record)...)
	r.stateVerdict(fc, verdict)
	switch {
	case !verdict.Usable():
		r.stateUnusable(fc, s, verdict)
		return nil
	case s.config == nil:
		wait := condition.No(ReasonNoFabric, "this cluster's own FabricConfig is not ready yet: see `weftctl status`")
		for _, kind := range []string{v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady, v1alpha1.ConditionConnected} {
			wait.Set(&fc.Status.Conditions, kind, fc.Generation)
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
	neighbor, prefixProblem, err := r.ensureNeighbor(ctx, fc, s, verdict.Record, m.said)
	switch {
	case errors.Is(err, errNoWay):
		stateNoWay(fc)
		return nil
	case errors.As(err, new(hopeless)):
		r.stateHopeless(fc, s, err)
		return nil
	case err != nil:
		return err
	}
	s.set(neighbor)
	if errors.Is(prefixProblem, errMoreLater) {
		prefixProblem = nil
		m.soon(claimPause)
	}
	placed, waiting := inPlace(neighbor, s.nodes, s.ready)
	m.announced = nextAnnounced(offersOf(&neighbor.Spec, s.behind(fc)), m.announced, placed)
	r.settle(fc, m, neighbor, placed)
	r.talk(fc, s, m, verdict.Record)
	status := r.Channels.Status(fc.Spec.Identity)
	r.stateProgress(fc, neighbor, status, exchange{
		ways: s.waysTo(fc), spec: &neighbor.Spec, own: s.config.Status.Networks, channel: status,
		prefixes: prefixProblem, inPlace: placed, waiting: waiting, hub: s.asHub(fc),
	})
	if errors.As(prefixProblem, new(crowded)) || errors.As(prefixProblem, new(foreignKey)) {
		return nil // no turn of its own helps
	}
	return prefixProblem
}

// ready reports whether a node can be waited for.
func (s *snapshot) ready(n *v1alpha1.FabricNode) bool { return s.alive[n.Name] && fabric.AgentReady(n) }

// set makes the snapshot hold a Neighbor as it was just written.
func (s *snapshot) set(n *v1alpha1.Neighbor) {
	if known := find(s.neighbors, n.Name); known != nil {
		*known = *n
		return
	}
	s.neighbors = append(s.neighbors, *n)
}

// talk tells the channel manager what to say to the peer and where it is.
func (r *Reconciler) talk(fc *v1alpha1.ForeignCluster, s *snapshot, m *memory, record *identity.Record) {
	peer := channel.Peer{
		Identity: fc.Spec.Identity, Name: fc.Name, Routes: s.routesTo(fc, record),
		Say: channel.Snapshot{
			Record:     s.config.Status.Record,
			Networks:   ownNetworks(s.config),
			Offers:     m.announced,
			MTU:        fabric.MTU(s.nodes),
			Reachables: s.reachablesFor(fc),
			OffDirect:  m.offDirect,
		},
	}
	if r.Introductions != nil {
		peer.Say.Introductions = r.Introductions(fc.Spec.Identity)
	}
	if r.Reports != nil {
		peer.Say.Reports = r.Reports(fc.Spec.Identity)
	}
	r.Channels.SetPeer(peer)
	first := !m.peered
	r.mu.Lock()
	m.peered = true
	r.mu.Unlock()
	if first && hasLeft(fc) {
		r.Channels.MarkLeft(fc.Spec.Identity)
	}
}

func (r *Reconciler) writeStatus(ctx context.Context, fc *v1alpha1.ForeignCluster, before *v1alpha1.ForeignClusterStatus, m *memory) error {
	now := r.Now()
	if !worthWriting(before, &fc.Status, now.Sub(m.wrote)) {
		return nil
	}
	if !m.pace.writes.AllowN(now, 1) {
		m.soon(writeEvery)
		return nil
	}
	if err := r.Client.Status().Update(ctx, fc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of foreign cluster %s: %w", fc.Name, err)
	}
	m.wrote = now
	return nil
}
