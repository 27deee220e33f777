package peering

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

var (
	grants    = v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessAll, Transit: v1alpha1.TransitSpec{Neighbors: []string{"*"}}}
	usesHub   = v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessAll, Introduced: v1alpha1.PodAccessAll, Transit: v1alpha1.TransitSpec{UseAsHub: true}}
	noTransit = v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessAll}
)

// hubbed is a and b, peered with c and not with each other; c forwards between
// them and both use it.
func hubbed(t *testing.T) (w *world, a, b, c *member) {
	t.Helper()
	w = newWorld(t, "a", "b", "c")
	a, b, c = w.clusters[0], w.clusters[1], w.clusters[2]
	for _, m := range []*member{a, b} {
		m.knows(c, usesHub)
		c.knows(m, grants)
	}
	w.turns()
	return w, a, b, c
}

// a and b come to know each other through c alone: an object on each side, no
// tunnel, rows on the links with c that meet in the middle, and a channel.
func TestThroughHub(t *testing.T) {
	w, a, b, c := hubbed(t)
	fc := a.get("b")
	require.NotNil(t, fc)
	require.Equal(t, []string{"c"}, fc.Spec.ReachedThrough)
	require.Equal(t, v1alpha1.PodAccessAll, fc.Spec.Access.Pods)
	require.Contains(t, a.condition("b", v1alpha1.ConditionRecordValid), "hub c leads to it")

	nb, nc := a.neighbor("b"), a.neighbor("c")
	require.Empty(t, nb.Spec.Peers)
	require.Empty(t, nb.Spec.Rows)
	require.Len(t, nb.Spec.Networks, 2)
	require.EqualValues(t, 1440, nb.Spec.MTU)
	require.Len(t, nc.Spec.Peers, 1)

	ours := rowsOf(nc, v1alpha1.RowOurs, nb.Spec.ClusterIndex)
	atHub := c.neighbor("a")
	theirs := rowsOf(atHub, v1alpha1.RowTheirs, c.neighbor("b").Spec.ClusterIndex)
	require.Len(t, ours, 2)
	require.Len(t, theirs, 2)
	for i := range ours {
		require.Equal(t, ours[i].Wire, theirs[i].Wire, "a chose it, c was told")
		require.Equal(t, nb.Spec.Networks[i].Local, ours[i].Local)
		require.NotEqual(t, ours[i].Local, ours[i].Wire, "a direct link may have the view as its wire prefix")
		require.Equal(t, c.neighbor("b").Spec.Networks[i].Local, theirs[i].Local)
	}
	require.Equal(t, []int32{c.neighbor("b").Spec.ClusterIndex}, atHub.Spec.Transit)
	require.Empty(t, nc.Spec.Transit)

	require.Equal(t, []channel.Route{{Target: identity.ChannelAddress(b.id, 1), Hub: identity.ChannelAddress(c.id, 1)}}, a.peers[b.id].Routes)
	require.Empty(t, a.peers[b.id].Say.Offers)
	require.Empty(t, a.peers[b.id].Say.Reachables, "what a knows from a hub is not told on")
	require.Empty(t, a.peers[c.id].Say.Reachables)
	require.Equal(t, "True ThroughHub: reached through c, RTT 80.0 ms", a.connected("b"))
	require.Contains(t, a.condition("b", v1alpha1.ConditionNetworksReady), "True Ready: 2 networks from there, through c")
	require.Contains(t, a.condition("c", v1alpha1.ConditionNetworksReady), "as a hub it forwards to 1 cluster")
	require.Equal(t, "c", a.get("b").Status.Paths[0].Via)

	for _, m := range w.clusters {
		m.writes = 0
		clear(m.woken)
	}
	w.turns()
	for _, m := range w.clusters {
		require.Zero(t, m.writes, "%s is at rest", m.name)
		require.Empty(t, m.woken)
	}
}

// Wherever a controller is started anew, nothing is withdrawn and nothing moves,
// also while the hub is away.
func TestHubPathsOutliveControllers(t *testing.T) {
	w, a, b, c := hubbed(t)
	type state struct{ b, c v1alpha1.NeighborSpec }
	of := func(m *member, other string) state { return state{m.neighbor(other).Spec, m.neighbor("c").Spec} }
	before, beforeB, atHub := of(a, "b"), of(b, "a"), c.neighbor("a").Spec
	c.away = true
	a.restart()
	a.turn()
	a.turn()
	require.Equal(t, before, of(a, "b"))
	b.restart()
	w.turns()
	require.Equal(t, before, of(a, "b"))
	require.Equal(t, beforeB, of(b, "a"))
	require.Equal(t, "True ThroughHub: reached through c, RTT 80.0 ms", a.connected("b"))
	c.restart()
	c.turn() // nobody has told it anything yet
	c.away = false
	for range 3 {
		c.turn()
		require.Equal(t, atHub, c.neighbor("a").Spec)
	}
	w.turns()
	require.Equal(t, before, of(a, "b"))
	require.Equal(t, atHub, c.neighbor("a").Spec)
}

// What ends it: the hub's grant, the use of the hub, the peering with it. The
// claims stay, so that the next time finds the same views.
func TestHubPathsEnd(t *testing.T) {
	tests := map[string]struct{ end, again func(a, b, c *member) }{
		"grant": {
			func(_, _, c *member) {
				for _, name := range []string{"a", "b"} {
					c.edit(name, func(s *v1alpha1.ForeignClusterSpec) { s.Access.Transit.Neighbors = nil })
				}
			},
			func(_, _, c *member) {
				c.edit("b", func(s *v1alpha1.ForeignClusterSpec) { s.Access.Transit.Neighbors = []string{"a"} })
			},
		},
		"use": {
			func(a, _, _ *member) {
				a.edit("c", func(s *v1alpha1.ForeignClusterSpec) { s.Access.Transit.UseAsHub = false })
			},
			func(a, _, _ *member) {
				a.edit("c", func(s *v1alpha1.ForeignClusterSpec) { s.Access.Transit.UseAsHub = true })
			},
		},
		"peering": {
			func(a, _, _ *member) { a.delete("c") },
			func(a, _, c *member) { a.knows(c, usesHub) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, a, b, c := hubbed(t)
			views := a.neighbor("b").Spec.Networks
			test.end(a, b, c)
			w.until("the object is gone", func() bool { return a.get("b") == nil && a.neighbor("b") == nil })
			w.turns()
			if nc := a.neighbor("c"); nc != nil {
				for _, row := range nc.Spec.Rows {
					require.Contains(t, []int32{0, nc.Spec.ClusterIndex}, row.OriginIndex)
				}
			}
			if name == "grant" {
				require.Empty(t, c.neighbor("a").Spec.Transit)
				require.Empty(t, rowsOf(c.neighbor("a"), v1alpha1.RowTheirs, c.neighbor("b").Spec.ClusterIndex))
				require.Nil(t, b.get("a"))
				require.Contains(t, a.condition("c", v1alpha1.ConditionNetworksReady), "it forwards to no cluster")
			}
			test.again(a, b, c)
			w.until("reached again", func() bool { return a.connected("b") == "True ThroughHub: reached through c, RTT 80.0 ms" })
			require.Equal(t, views, a.neighbor("b").Spec.Networks)
		})
	}
}

// An admin who deletes the object that the controller made sees it come back.
func TestMadeObjectComesBack(t *testing.T) {
	w, a, _, _ := hubbed(t)
	before, first := a.neighbor("b").Spec.Networks, a.get("b").UID
	a.delete("b")
	w.until("it is back", func() bool { fc := a.get("b"); return fc != nil && fc.UID != first })
	w.until("reached again", func() bool { return a.connected("b") == "True ThroughHub: reached through c, RTT 80.0 ms" })
	require.Equal(t, before, a.neighbor("b").Spec.Networks)
}

// The pods access of what the controller made follows, live, what the admin says
// of the hub.
func TestIntroducedFollows(t *testing.T) {
	w, a, _, _ := hubbed(t)
	a.edit("c", func(s *v1alpha1.ForeignClusterSpec) { s.Access.Introduced = v1alpha1.PodAccessNone })
	w.turns()
	require.Equal(t, v1alpha1.PodAccessNone, a.get("b").Spec.Access.Pods)
	require.Equal(t, v1alpha1.PodAccessNone, a.neighbor("b").Spec.Access.Pods)
	a.edit("b", func(s *v1alpha1.ForeignClusterSpec) { s.Access.Pods = v1alpha1.PodAccessAll })
	w.turns()
	require.Equal(t, v1alpha1.PodAccessNone, a.get("b").Spec.Access.Pods)
}

// A direct peering by admins and a hub live side by side; neither touches the
// other, and the object is not altered.
func TestDirectAndHub(t *testing.T) {
	w, a, b, c := hubbed(t)
	views, rows := a.neighbor("b").Spec.Networks, rowsOf(a.neighbor("c"), v1alpha1.RowOurs, a.neighbor("b").Spec.ClusterIndex)
	for _, m := range []*member{a, b} { // so that no object is made meanwhile
		m.edit("c", func(s *v1alpha1.ForeignClusterSpec) { s.Access.Transit.UseAsHub = false })
	}
	w.until("no hub is used", func() bool { return a.get("b") == nil && b.get("a") == nil })
	a.knows(b, noTransit)
	b.knows(a, noTransit)
	for _, m := range []*member{a, b} {
		m.edit("c", func(s *v1alpha1.ForeignClusterSpec) { s.Access.Transit.UseAsHub = true })
	}
	w.turns()
	require.Equal(t, noTransit, a.get("b").Spec.Access)
	require.Empty(t, a.get("b").Spec.ReachedThrough)
	n := a.neighbor("b")
	require.Equal(t, views, n.Spec.Networks, "a change of path never changes a view")
	require.Len(t, n.Spec.Peers, 1)
	require.Len(t, rowsOf(n, v1alpha1.RowOurs, n.Spec.ClusterIndex), 2)
	var wires []v1alpha1.CIDR
	for _, row := range rowsOf(a.neighbor("c"), v1alpha1.RowOurs, n.Spec.ClusterIndex) {
		wires = append(wires, row.Wire)
	}
	require.Equal(t, []v1alpha1.CIDR{rows[0].Wire, rows[1].Wire}, wires)
	require.Len(t, a.get("b").Status.Paths, 2)
	require.Equal(t, "True LinksUp: 1 of 1 links up, RTT 20.0 ms", a.connected("b"))
	require.Equal(t, []channel.Route{
		{Target: identity.ChannelAddress(b.id, 1)},
		{Target: identity.ChannelAddress(b.id, 1), Hub: identity.ChannelAddress(c.id, 1)},
	}, a.peers[b.id].Routes)
	a.silent["b"] = true
	a.turn()
	require.Equal(t, "True ThroughHub: 0 of 1 links up, reached through c, RTT 80.0 ms", a.connected("b"))
}

// introduce gives a ForeignCluster one introduction in a state; an empty one takes
// it away.
func (m *member) introduce(name string, state v1alpha1.IntroductionState, mode v1alpha1.ConnectionMode) {
	m.t.Helper()
	m.edit(name, func(s *v1alpha1.ForeignClusterSpec) {
		if s.IntroducedBy = nil; state != "" {
			s.IntroducedBy = []string{"c/ab"}
		}
	})
	m.stated(name, func(s *v1alpha1.ForeignClusterStatus) {
		if s.Introductions = nil; state != "" {
			s.Introductions = []v1alpha1.IntroductionStatus{{Introducer: "c", Connection: "ab", UID: "1", Mode: mode, State: state, MTU: 1400}}
		}
	})
}

// The two sides accept at different times, and end it and begin anew at once:
// nobody waits for the other for ever. (A side without a tunnel says that it sends
// nothing over it; the other follows, and nobody follows a follower.)
func TestNobodyFollowsAFollower(t *testing.T) {
	w, a, b, _ := hubbed(t)
	paths := func() []v1alpha1.PathPolicy {
		return []v1alpha1.PathPolicy{a.neighbor("b").Spec.Paths, b.neighbor("a").Spec.Paths}
	}
	any, hub := v1alpha1.PathAny, v1alpha1.PathHubOnly
	prefer, accepted, ending := v1alpha1.ModePrefer, v1alpha1.IntroductionAccepted, v1alpha1.IntroductionEnding
	a.introduce("b", accepted, prefer)
	w.turns()
	require.Equal(t, hub, a.neighbor("b").Spec.Paths, "b has no tunnel yet")
	require.Equal(t, channel.Following, b.said[a.id].OffDirect)
	b.introduce("a", accepted, prefer)
	w.turns()
	require.Equal(t, []v1alpha1.PathPolicy{any, any}, paths())
	require.Empty(t, a.said[b.id].OffDirect)
	require.Empty(t, b.said[a.id].OffDirect)

	for _, first := range []*member{a, b} {
		a.introduce("b", ending, prefer)
		b.introduce("a", ending, prefer)
		w.turns()
		require.Equal(t, []v1alpha1.PathPolicy{hub, hub}, paths())
		if first == a {
			a.introduce("b", accepted, prefer)
			w.turns()
			require.Equal(t, []v1alpha1.PathPolicy{hub, hub}, paths(), "b still leaves")
			b.introduce("a", accepted, prefer)
		} else {
			b.introduce("a", accepted, prefer)
			a.introduce("b", accepted, prefer)
		}
		w.turns()
		require.Equal(t, []v1alpha1.PathPolicy{any, any}, paths())
	}

	b.introduce("a", ending, prefer) // b alone ends it: a follows
	w.turns()
	require.Equal(t, []v1alpha1.PathPolicy{hub, hub}, paths())
	require.True(t, a.OffDirect("b"))
	require.True(t, b.OffDirect("a"))
	require.Equal(t, channel.Following, b.said[a.id].OffDirect)
}

// An introduction makes the object direct and ends again; rows of the hub stay
// all the time, and the strictest mode wins while it lasts.
func TestIntroduced(t *testing.T) {
	w, a, b, _ := hubbed(t)
	hubRows := func() []v1alpha1.Row {
		return rowsOf(a.neighbor("c"), v1alpha1.RowOurs, a.neighbor("b").Spec.ClusterIndex)
	}
	before := hubRows()
	require.True(t, a.OffDirect("b"), "there is no tunnel")
	for m, name := range map[*member]string{a: "b", b: "a"} {
		m.introduce(name, v1alpha1.IntroductionAccepted, v1alpha1.ModeRequire)
	}
	w.turns()
	n := a.neighbor("b")
	require.Equal(t, v1alpha1.PathDirectOnly, n.Spec.Paths)
	require.EqualValues(t, 1400, n.Spec.MTU)
	require.Len(t, n.Spec.Peers, 1)
	require.Equal(t, "True LinksUp: 1 of 1 links up, RTT 20.0 ms", a.connected("b"))
	require.Equal(t, before, hubRows())
	require.False(t, a.OffDirect("b"))
	a.silent["b"] = true
	a.turn()
	require.Contains(t, a.connected("b"), "False LinksDown: 0 of 1 links up")
	require.Contains(t, a.connected("b"), "Require")
	delete(a.silent, "b")

	for m, name := range map[*member]string{a: "b", b: "a"} {
		m.introduce(name, v1alpha1.IntroductionEnding, v1alpha1.ModeRequire)
	}
	a.lame = true
	w.turns()
	require.Equal(t, v1alpha1.PathHubOnly, a.neighbor("b").Spec.Paths)
	require.False(t, a.OffDirect("b"), "it is not in place")
	a.lame = false
	w.turns()
	require.True(t, a.OffDirect("b"))
	require.Equal(t, channel.Leaving, b.said[a.id].OffDirect)
	for m, name := range map[*member]string{a: "b", b: "a"} {
		m.introduce(name, "", "")
	}
	w.turns()
	require.Empty(t, a.neighbor("b").Spec.Peers)
	require.Empty(t, a.neighbor("b").Spec.Rows)
	require.Equal(t, before, hubRows())
	require.Equal(t, "True ThroughHub: reached through c, RTT 80.0 ms", a.connected("b"))
	require.EqualValues(t, 1440, a.neighbor("b").Spec.MTU)
}

// A network that b does not export any more: the rows that name it go from the
// hub's Neighbor first, then its view. The check after each turn sees to that.
func TestNetworkBehindHubGoes(t *testing.T) {
	w, a, b, _ := hubbed(t)
	setNetworks(t, b, v1alpha1.OwnNetwork{Name: "nodes", Kind: v1alpha1.NetworkNode, CIDR: "100.64.0.0/20", Index: 2})
	w.turns()
	n := a.neighbor("b")
	require.Len(t, n.Spec.Networks, 1)
	require.Len(t, rowsOf(a.neighbor("c"), v1alpha1.RowOurs, n.Spec.ClusterIndex), 1)
	require.Equal(t, "True ThroughHub: reached through c, RTT 80.0 ms", a.connected("b"))
}

// Two hubs lead to b: it stays known, with its views, as long as one does.
func TestTwoHubs(t *testing.T) {
	w := newWorld(t, "a", "b", "c", "d")
	a, b, c, d := w.clusters[0], w.clusters[1], w.clusters[2], w.clusters[3]
	for _, m := range []*member{a, b} {
		for _, hub := range []*member{c, d} {
			m.knows(hub, usesHub)
			hub.knows(m, grants)
		}
	}
	w.turns()
	require.Equal(t, []string{"c", "d"}, a.get("b").Spec.ReachedThrough)
	require.Len(t, a.get("b").Status.Paths, 2)
	uid, views := a.get("b").UID, a.neighbor("b").Spec.Networks
	a.delete("c")
	w.until("c is gone", func() bool { return a.get("c") == nil })
	w.turns()
	require.Equal(t, uid, a.get("b").UID)
	require.Equal(t, []string{"d"}, a.get("b").Spec.ReachedThrough)
	require.Equal(t, views, a.neighbor("b").Spec.Networks)
	require.Equal(t, "True ThroughHub: reached through d, RTT 80.0 ms", a.connected("b"))
}

func setNetworks(t *testing.T, m *member, networks ...v1alpha1.OwnNetwork) {
	t.Helper()
	var list v1alpha1.FabricConfigList
	require.NoError(t, m.client.List(t.Context(), &list))
	list.Items[0].Status.Networks = networks
	require.NoError(t, m.client.Update(t.Context(), &list.Items[0]))
}

func TestLocalName(t *testing.T) {
	_, one := signer(1)
	_, two := signer(2)
	clusters := []v1alpha1.ForeignCluster{{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.ForeignClusterSpec{Identity: one}}}
	require.Equal(t, "b", LocalName("b", one, clusters))
	require.Equal(t, "b-"+string(two)[:8], LocalName("b", two, clusters))
	long := "a123456789012345678901234567890-23456789"
	clusters[0].Name = long
	require.Equal(t, "a123456789012345678901234567890-"+string(two)[:8], LocalName(v1alpha1.ClusterID(long), two, clusters))
}

// "All" are those whom this admin made; whom a neighbor introduces is not let
// through to them unless it is named.
func TestAllIsNotWhomOthersIntroduce(t *testing.T) {
	cluster := func(name string, transit ...string) *v1alpha1.ForeignCluster {
		fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		fc.Spec.Access.Transit.Neighbors = transit
		return fc
	}
	a, b, z := cluster("a", "*"), cluster("b"), cluster("z")
	z.Spec.IntroducedBy = []string{"d/az"}
	require.True(t, granted(a, b))
	require.True(t, granted(b, a))
	require.False(t, granted(a, z))
	require.True(t, granted(cluster("b", "z"), z))
	z.Spec.Access.Transit.Neighbors = []string{"*"} // the admin's word about z itself
	require.True(t, granted(a, z))
}

// Of an object that was made anew for an introduction the mode is written second:
// until then it may be Require.
func TestUnknownModeKeepsOffTheHub(t *testing.T) {
	fc := &v1alpha1.ForeignCluster{Spec: v1alpha1.ForeignClusterSpec{IntroducedBy: []string{"c/ab"}}}
	require.Equal(t, v1alpha1.PathDirectOnly, pathPolicy(fc, channel.Leaving))
	fc.Status.Introductions = []v1alpha1.IntroductionStatus{{Introducer: "c", Connection: "ab", Mode: v1alpha1.ModePrefer, State: v1alpha1.IntroductionAccepted}}
	require.Equal(t, v1alpha1.PathAny, pathPolicy(fc, ""))
	fc.Spec.IntroducedBy, fc.Spec.ReachedThrough, fc.Status.Introductions = nil, []string{"c"}, nil
	require.Equal(t, v1alpha1.PathAny, pathPolicy(fc, ""))
}

// A hub that tells ever new clusters makes objects slowly.
func TestDiscoveryIsPaced(t *testing.T) {
	p := newPace()
	now, made := time.Unix(1_800_000_000, 0), 0
	for range 600 {
		now = now.Add(100 * time.Millisecond)
		if p.makes.AllowN(now, 1) {
			made++
		}
	}
	require.LessOrEqual(t, made, channel.MaxReachables+2)
}
