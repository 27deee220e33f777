package peering

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/ipam"
	"github.com/weft-fabric/weft/controlplane/measure"
)

// world is clusters whose channels hand over at once what is said, over whatever
// routes lead there.
type world struct {
	t        *testing.T
	clusters []*member
}

// member is one cluster: an API server in memory, agents that do what it says,
// and the reconciler.
type member struct {
	t      *testing.T
	world  *world
	name   string
	key    ed25519.PrivateKey
	id     v1alpha1.Identity
	client client.WithWatch
	*Reconciler
	peers map[v1alpha1.Identity]channel.Peer
	// said by the others; it outlives their absence, not our restart.
	said map[v1alpha1.Identity]channel.Snapshot
	left map[v1alpha1.Identity]bool
	// away: no channel leads here, nothing is done here.
	away bool
	// woken by Again, since it was last looked at.
	woken map[string]bool
	// lame agents put nothing in place.
	lame bool
	// silent neighbors answer no probes any more.
	silent map[string]bool
	writes int
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{t: t}
	for i, name := range names {
		w.clusters = append(w.clusters, newMember(t, w, name, byte(i+1)))
	}
	return w
}

func newMember(t *testing.T, w *world, name string, seed byte) *member {
	t.Helper()
	m := &member{t: t, world: w, name: name, woken: map[string]bool{}, silent: map[string]bool{}, left: map[v1alpha1.Identity]bool{}}
	m.key, m.id = signer(seed)
	m.client = m.apiServer()
	token, err := (&identity.Record{ClusterID: v1alpha1.ClusterID(name), Epoch: 1, Serial: 1, Gateways: []identity.Gateway{{
		ID: 1, Endpoints: []string{"172.31.0.1"}, Lanes: []identity.Lane{{Port: 51847, Key: m.key.Public().(ed25519.PublicKey)}},
	}}}).Sign(m.key)
	require.NoError(t, err)
	config := &v1alpha1.FabricConfig{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FabricConfigName},
		Spec:       v1alpha1.FabricConfigSpec{Pools: []v1alpha1.CIDR{"100.64.0.0/10"}, WirePools: []v1alpha1.CIDR{"240.0.0.0/5"}},
		Status: v1alpha1.FabricConfigStatus{Identity: m.id, Record: token, Networks: []v1alpha1.OwnNetwork{
			{Name: "pods", Kind: v1alpha1.NetworkPod, CIDR: "10.244.0.0/16", Index: 1},
			{Name: "nodes", Kind: v1alpha1.NetworkNode, CIDR: "100.64.0.0/20", Index: 2},
		}},
	}
	node := &v1alpha1.FabricNode{ObjectMeta: metav1.ObjectMeta{Name: name + "1"}, Spec: v1alpha1.FabricNodeSpec{GatewayID: 1}}
	node.Status.UnderlayMTU = 1500
	node.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"}}
	kubeNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name + "1"}}
	kubeNode.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, object := range []client.Object{config, node, kubeNode} {
		require.NoError(t, m.client.Create(t.Context(), object))
	}
	m.restart()
	return m
}

// apiServer is a fake one that gives UIDs, counts generations and writes.
func (m *member) apiServer() client.WithWatch {
	scheme := runtime.NewScheme()
	require.NoError(m.t, clientgoscheme.AddToScheme(scheme))
	require.NoError(m.t, v1alpha1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ForeignCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				m.writes++
				object.SetUID(uuid.NewUUID())
				object.SetGeneration(1)
				object.SetCreationTimestamp(metav1.Now())
				return c.Create(ctx, object, options...)
			},
			Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				m.writes++
				object.SetGeneration(object.GetGeneration() + 1)
				return c.Update(ctx, object, options...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				m.writes++
				return c.Delete(ctx, object, options...)
			},
		}).Build()
}

// restart begins another controller process.
func (m *member) restart() {
	m.peers, m.said = map[v1alpha1.Identity]channel.Peer{}, map[v1alpha1.Identity]channel.Snapshot{}
	m.Reconciler = &Reconciler{
		Client: m.client, Reader: m.client, Claims: ipam.APIStore{Reader: m.client, Writer: m.client},
		Self: m.id, Channels: channelsOf{m}, View: m.view, Now: time.Now, Again: func(name string) { m.woken[name] = true },
	}
}

// channelsOf a member are up when both ends know each other and neither is away.
type channelsOf struct{ *member }

func (c channelsOf) SetPeer(p channel.Peer)          { c.peers[p.Identity] = p }
func (c channelsOf) RemovePeer(id v1alpha1.Identity) { delete(c.peers, id); delete(c.said, id) }
func (c channelsOf) MarkLeft(id v1alpha1.Identity)   { c.left[id] = true }

func (c channelsOf) Goodbye(_ context.Context, id v1alpha1.Identity) error {
	c.world.member(id).left[c.id] = true
	return nil
}

func (c channelsOf) Status(id v1alpha1.Identity) channel.Status {
	far := c.world.member(id)
	_, here := c.peers[id]
	theirs, there := far.peers[c.id]
	s := channel.Status{Left: c.left[id]}
	if here && there && !c.away && !far.away {
		s.Connected, s.Left, c.left[id] = true, false, false
		before := c.said[id]
		said := theirs.Say
		if said.Offers == nil {
			said.Offers = before.Offers
		}
		c.said[id] = said
	}
	s.Said = c.said[id]
	return s
}

func (w *world) member(id v1alpha1.Identity) *member {
	return w.clusters[slices.IndexFunc(w.clusters, func(m *member) bool { return m.id == id })]
}

// view is what honest probes would see: a path is up when all its rows are there
// at all ends.
func (m *member) view() measure.View {
	var view measure.View
	neighbors, err := m.listNeighbors(m.t.Context())
	require.NoError(m.t, err)
	for _, to := range neighbors {
		for _, via := range neighbors {
			if len(via.Spec.Peers) == 0 || !bothSides(via.Spec.Rows, to.Spec.ClusterIndex) {
				continue
			}
			p := agent.Path{Cluster: to.Name, ClusterIndex: to.Spec.ClusterIndex, Via: via.Name, ViaIndex: via.Spec.ClusterIndex, OwnGateway: 1, RemoteGateway: 1}
			p.State, p.RTTMicroseconds = v1alpha1.PathUnknown, 20_000
			if !p.Direct() {
				p.RTTMicroseconds = 80_000
			}
			switch {
			case m.silent[via.Name]:
				p.State = v1alpha1.PathDown
			case m.crosses(&via, &to):
				p.State = v1alpha1.PathUp
			}
			view.Paths = append(view.Paths, p)
		}
	}
	return view
}

// crosses reports whether a packet to a cluster comes back over a neighbor.
func (m *member) crosses(via, to *v1alpha1.Neighbor) bool {
	far := m.world.member(to.Spec.Identity)
	if via.Name == to.Name {
		back := far.neighborWith(m.id)
		return back != nil && len(back.Spec.Peers) > 0 && bothSides(back.Spec.Rows, back.Spec.ClusterIndex)
	}
	hub := m.world.member(via.Spec.Identity)
	us, them := hub.neighborWith(m.id), hub.neighborWith(far.id)
	theirHub, back := far.neighborWith(hub.id), far.neighborWith(m.id)
	return us != nil && them != nil && theirHub != nil && back != nil &&
		slices.Contains(us.Spec.Transit, them.Spec.ClusterIndex) &&
		len(rowsOf(us, v1alpha1.RowTheirs, them.Spec.ClusterIndex)) > 0 && len(rowsOf(them, v1alpha1.RowTheirs, us.Spec.ClusterIndex)) > 0 &&
		bothSides(theirHub.Spec.Rows, back.Spec.ClusterIndex)
}

func rowsOf(n *v1alpha1.Neighbor, side v1alpha1.RowSide, origin int32) []v1alpha1.Row {
	var out []v1alpha1.Row
	for _, row := range n.Spec.Rows {
		if row.Side == side && row.OriginIndex == origin {
			out = append(out, row)
		}
	}
	return out
}

// turn runs the reconciler for every ForeignCluster and what was woken, then the
// agents. Every rule that must hold at all times is checked.
func (m *member) turn() {
	m.t.Helper()
	if m.away {
		return
	}
	names := m.names()
	for name := range m.woken {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	clear(m.woken)
	for _, name := range names {
		_, err := m.Reconcile(m.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
		require.NoError(m.t, err)
		m.check()
	}
	m.agents()
}

func (m *member) agents() {
	m.t.Helper()
	neighbors, err := m.listNeighbors(m.t.Context())
	require.NoError(m.t, err)
	var nodes v1alpha1.FabricNodeList
	require.NoError(m.t, m.client.List(m.t.Context(), &nodes))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if m.lame {
			continue
		}
		before := n.Status.Applied
		n.Status.Applied = nil
		for _, neighbor := range neighbors {
			n.Status.Applied = append(n.Status.Applied, v1alpha1.AppliedNeighbor{Name: neighbor.Name, UID: neighbor.UID, Generation: neighbor.Generation})
		}
		if !slices.Equal(before, n.Status.Applied) {
			require.NoError(m.t, m.client.Update(m.t.Context(), n))
		}
	}
}

// check that each row names a network of a Neighbor that is there, by its view;
// that no two rows of ours share a wire prefix for different networks; and that
// indexes are unique.
func (m *member) check() {
	m.t.Helper()
	neighbors, err := m.listNeighbors(m.t.Context())
	require.NoError(m.t, err)
	views := map[networkIndex]v1alpha1.CIDR{{0, 1}: "10.244.0.0/16", {0, 2}: "100.64.0.0/20"}
	indexes := map[int32]bool{}
	for _, n := range neighbors {
		require.False(m.t, indexes[n.Spec.ClusterIndex])
		indexes[n.Spec.ClusterIndex] = true
		for _, view := range n.Spec.Networks {
			views[networkIndex{n.Spec.ClusterIndex, view.Index}] = view.Local
		}
	}
	var wires []v1alpha1.Row
	for _, n := range neighbors {
		for _, row := range n.Spec.Rows {
			require.Equal(m.t, views[networkIndex{row.OriginIndex, row.NetworkIndex}], row.Local, "%s: row %+v of neighbor %s", m.name, row, n.Name)
			if row.Side == v1alpha1.RowTheirs {
				continue
			}
			for _, other := range wires {
				require.False(m.t, netip.MustParsePrefix(string(other.Wire)).Overlaps(netip.MustParsePrefix(string(row.Wire))), "%s: %+v and %+v", m.name, other, row)
			}
			wires = append(wires, row)
		}
	}
}

func (m *member) names() []string {
	m.t.Helper()
	var list v1alpha1.ForeignClusterList
	require.NoError(m.t, m.client.List(m.t.Context(), &list))
	var names []string
	for _, fc := range list.Items {
		names = append(names, fc.Name)
	}
	return names
}

// knows makes m peer with other.
func (m *member) knows(other *member, access v1alpha1.AccessSpec) {
	m.t.Helper()
	var config v1alpha1.FabricConfig
	require.NoError(m.t, other.client.Get(m.t.Context(), client.ObjectKey{Name: v1alpha1.FabricConfigName}, &config))
	require.NoError(m.t, m.client.Create(m.t.Context(), &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: other.name},
		Spec:       v1alpha1.ForeignClusterSpec{Identity: other.id, Record: config.Status.Record, Access: access},
	}))
}

func (m *member) get(name string) *v1alpha1.ForeignCluster {
	m.t.Helper()
	var fc v1alpha1.ForeignCluster
	if err := m.client.Get(m.t.Context(), client.ObjectKey{Name: name}, &fc); err != nil {
		require.NoError(m.t, client.IgnoreNotFound(err))
		return nil
	}
	return &fc
}

// edit changes the spec of a ForeignCluster, stated its status.
func (m *member) edit(name string, change func(*v1alpha1.ForeignClusterSpec)) {
	m.t.Helper()
	fc := m.get(name)
	change(&fc.Spec)
	require.NoError(m.t, m.client.Update(m.t.Context(), fc))
}

func (m *member) stated(name string, change func(*v1alpha1.ForeignClusterStatus)) {
	m.t.Helper()
	fc := m.get(name)
	change(&fc.Status)
	require.NoError(m.t, m.client.Status().Update(m.t.Context(), fc))
}

func (m *member) delete(name string) {
	m.t.Helper()
	require.NoError(m.t, m.client.Delete(m.t.Context(), &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func (m *member) neighborWith(id v1alpha1.Identity) *v1alpha1.Neighbor {
	m.t.Helper()
	neighbors, err := m.listNeighbors(m.t.Context())
	require.NoError(m.t, err)
	for i := range neighbors {
		if neighbors[i].Spec.Identity == id {
			return &neighbors[i]
		}
	}
	return nil
}

func (m *member) neighbor(name string) *v1alpha1.Neighbor {
	m.t.Helper()
	neighbors, err := m.listNeighbors(m.t.Context())
	require.NoError(m.t, err)
	return find(neighbors, name)
}

func (m *member) condition(name, kind string) string {
	m.t.Helper()
	fc := m.get(name)
	if fc == nil {
		return ""
	}
	c := meta.FindStatusCondition(fc.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func (m *member) connected(name string) string { return m.condition(name, v1alpha1.ConditionConnected) }

// turns of all clusters until nobody writes or says anything new, and no one is
// woken.
func (w *world) turns() {
	w.t.Helper()
	for range 30 {
		rest := true
		for _, m := range w.clusters {
			writes, said := m.writes, maps.Clone(m.peers)
			m.turn()
			rest = rest && writes == m.writes && reflect.DeepEqual(said, m.peers) && len(m.woken) == 0
		}
		if rest {
			return
		}
	}
	require.FailNow(w.t, "never at rest")
}

// until takes turns until ok, at most for some seconds: what is said goodbye to is
// forgotten beside the turns.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		require.True(w.t, time.Now().Before(deadline), "never: %s", what)
		for _, m := range w.clusters {
			m.turn()
		}
	}
}
