package peering

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// stateVerdict fills in what the objects alone say.
func (r *Reconciler) stateVerdict(fc *v1alpha1.ForeignCluster, v Verdict) {
	f := finding{status: metav1.ConditionFalse, reason: v.Reason, message: v.Message}
	if v.Valid {
		f.status = metav1.ConditionTrue
	}
	f.set(&fc.Status, v1alpha1.ConditionRecordValid, fc.Generation)
	if v.Record != nil {
		fc.Status.ClusterID = v.Record.ClusterID
		fc.Status.Record = ""
		if v.Token != fc.Spec.Record {
			fc.Status.Record = v.Token
		}
	}
	if v.Duplicate == "" {
		meta.RemoveStatusCondition(&fc.Status.Conditions, ConditionDuplicate)
		return
	}
	yes(ReasonDuplicate, "%s", duplicateMessage(v)).set(&fc.Status, ConditionDuplicate, fc.Generation)
}

func duplicateMessage(v Verdict) string {
	return fmt.Sprintf("ForeignCluster %s has the same identity and is older: delete one of the two", v.Duplicate)
}

// stateUnusable fills in why there is no peering. One that stood before a bad
// record was written stays as it is, and its links are what was measured.
func (r *Reconciler) stateUnusable(fc *v1alpha1.ForeignCluster, s *snapshot, v Verdict) {
	f := no(v.Reason, "%s", v.Message)
	if v.Duplicate != "" && v.Valid {
		f = no(ReasonDuplicate, "%s", duplicateMessage(v))
	}
	r.stateStanding(fc, s, f)
}

// hopeless is why no Neighbor can be made until somebody changes an object.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// stateHopeless fills in why there is no Neighbor, or an old one that stands.
func (r *Reconciler) stateHopeless(fc *v1alpha1.ForeignCluster, s *snapshot, err error) {
	f := no(ReasonNoNeighbor, "%s", err)
	f.set(&fc.Status, v1alpha1.ConditionNetworksReady, fc.Generation)
	r.stateStanding(fc, s, f)
}

// stateStanding fills in what the probes see of a Neighbor that stands, else f.
func (r *Reconciler) stateStanding(fc *v1alpha1.ForeignCluster, s *snapshot, f finding) {
	if n := find(s.neighbors, fc.Name); n != nil && n.Spec.Identity == fc.Spec.Identity {
		view := r.View()
		f = connectedFinding(fc.Name, &n.Spec, view, f, r.Channels.Status(fc.Spec.Identity))
		stateMTU(fc, &n.Spec, view)
	}
	f.set(&fc.Status, v1alpha1.ConditionConnected, fc.Generation)
}

// stateProgress fills in how far the peering has come.
func (r *Reconciler) stateProgress(fc *v1alpha1.ForeignCluster, neighbor *v1alpha1.Neighbor, status channel.Status, x exchange) {
	view := r.View()
	networks := networksFinding(x)
	channelFinding(fc.Name, status).set(&fc.Status, v1alpha1.ConditionChannelReady, fc.Generation)
	networks.set(&fc.Status, v1alpha1.ConditionNetworksReady, fc.Generation)
	connectedFinding(fc.Name, &neighbor.Spec, view, networks, status).set(&fc.Status, v1alpha1.ConditionConnected, fc.Generation)
	stateMTU(fc, &neighbor.Spec, view)
	fc.Status.Networks = remapped(&neighbor.Spec)
	if paths := pathsOf(fc.Name, neighbor.Spec.ClusterIndex, view); len(paths) > 0 || len(view.Unreadable) == 0 {
		fc.Status.Paths = paths // what cannot be read stays as it was
	}
}

// ensureNeighbor makes the Neighbor what it should be. Its second result says
// which network found no prefix; the others are in place.
func (r *Reconciler) ensureNeighbor(ctx context.Context, fc *v1alpha1.ForeignCluster, s *snapshot, record *identity.Record, said channel.Snapshot) (*v1alpha1.Neighbor, error, error) {
	neighbor := find(s.neighbors, fc.Name)
	var existing *v1alpha1.NeighborSpec
	if neighbor != nil {
		if neighbor.Spec.Identity != fc.Spec.Identity {
			return nil, nil, hopeless{fmt.Errorf("neighbor %s belongs to another identity: delete it (kubectl delete neighbor %s)", fc.Name, fc.Name)}
		}
		existing = &neighbor.Spec
	}
	networks := said.Networks
	if networks == nil {
		networks = networksOf(existing)
	}
	p := &prefixes{store: r.Claims, config: s.config, existing: existing, record: record, avoid: r.avoid(s), neighbors: r.listNeighbors}
	views, wires, prefixProblem := p.resolve(ctx, networks)
	index, err := r.clusterIndex(ctx, existing)
	if err != nil {
		return nil, nil, err
	}
	spec, err := buildNeighbor(neighborInput{
		Record: record, Existing: existing, Index: index, Access: fc.Spec.Access,
		Views: views, Wires: wires,
		OwnNetworks: s.config.Status.Networks, OwnGateways: ownGateways(s.nodes),
		Offers: said.Offers, MTU: said.MTU,
	})
	if err != nil {
		return nil, nil, hopeless{fmt.Errorf("peer with %s: %w", fc.Name, err)}
	}
	neighbor, err = r.writeNeighbor(ctx, fc.Name, neighbor, spec)
	return neighbor, prefixProblem, err
}

func (r *Reconciler) clusterIndex(ctx context.Context, existing *v1alpha1.NeighborSpec) (int32, error) {
	if existing != nil {
		return existing.ClusterIndex, nil
	}
	neighbors, err := r.listNeighbors(ctx)
	if err != nil {
		return 0, err
	}
	index, err := freeClusterIndex(neighbors)
	if err != nil {
		return 0, hopeless{err}
	}
	return index, nil
}

func (r *Reconciler) writeNeighbor(ctx context.Context, name string, have *v1alpha1.Neighbor, spec v1alpha1.NeighborSpec) (*v1alpha1.Neighbor, error) {
	if have == nil {
		created := &v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		if err := r.Client.Create(ctx, created); err != nil {
			return nil, fmt.Errorf("create neighbor %s: %w", name, err)
		}
		return created, nil
	}
	if equality.Semantic.DeepEqual(have.Spec, spec) {
		return have, nil
	}
	changed := have.DeepCopy()
	changed.Spec = spec
	if err := r.Client.Update(ctx, changed); err != nil {
		return nil, fmt.Errorf("update neighbor %s: %w", name, err)
	}
	return changed, nil
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
		peer.Addresses = append(peer.Addresses, identity.ChannelAddress(fc.Spec.Identity, id))
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

// avoid computes what is never handed out, when it is first asked.
func (r *Reconciler) avoid(s *snapshot) func(context.Context) ([]netip.Prefix, error) {
	var known []netip.Prefix
	return func(ctx context.Context) ([]netip.Prefix, error) {
		if known == nil {
			detected, err := fabric.Detect(ctx, r.Reader)
			if err != nil {
				return nil, err
			}
			known = fabric.Avoid(s.config, s.nodes, s.neighbors, detected.Taken())
		}
		return known, nil
	}
}

func (r *Reconciler) listNeighbors(ctx context.Context) ([]v1alpha1.Neighbor, error) {
	var list v1alpha1.NeighborList
	if err := r.Reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list neighbors: %w", err)
	}
	return list.Items, nil
}

func find(neighbors []v1alpha1.Neighbor, name string) *v1alpha1.Neighbor {
	for i := range neighbors {
		if neighbors[i].Name == name {
			return &neighbors[i]
		}
	}
	return nil
}

// ownGateways returns the gateway ids of this cluster.
func ownGateways(nodes []v1alpha1.FabricNode) []int32 {
	var ids []int32
	for i := range nodes {
		if id := nodes[i].Spec.GatewayID; id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
