package controlplane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// joined is a trio whose a and b are connected directly by c's connection "ab".
func joined(t *testing.T) *trio {
	t.Helper()
	w := throughHub(t, v1alpha1.IntroductionAllow)
	w.join("ab", "a", "b", v1alpha1.ModePrefer)
	w.untilPhase("ab", "Connected/")
	return w
}

// bothNeighbors reports whether the path policy at both ends is this one, and
// whether tunnels lead to the other.
func (w *trio) bothNeighbors(policy v1alpha1.PathPolicy, tunnels bool) func() bool {
	is := func(n *v1alpha1.Neighbor) bool {
		return n != nil && n.Spec.Paths == policy && (len(n.Spec.Peers) > 0) == tunnels
	}
	return func() bool { return is(w.a.neighbor("b")) && is(w.b.neighbor("a")) }
}

// A hub tells a and b of each other; then it joins them, and reports what they
// measure; then it lets go of them, and they are where they were.
func TestHubThenDirectThenHub(t *testing.T) {
	t.Parallel()
	w := throughHub(t, v1alpha1.IntroductionAllow)
	require.Equal(t, []string{"c"}, w.a.cluster("b").Spec.ReachedThrough)
	require.Equal(t, v1alpha1.PodAccessAll, w.a.cluster("b").Spec.Access.Pods, "as granted to those that c makes known")
	view := w.a.neighbor("b").Spec.Networks
	w.join("ab", "a", "b", v1alpha1.ModePrefer)
	w.untilPhase("ab", "Connected/DirectLinkUp: a and b send to each other over their direct link, RTT 20.1 ms (through a hub 80.4 ms)")
	w.untilActive("Direct")
	require.Equal(t, view, w.a.neighbor("b").Spec.Networks, "addresses stay")
	sides := w.connection("ab").Status.Sides
	require.Equal(t, "a", sides[0].Name)
	require.Equal(t, v1alpha1.CIDR("10.244.0.0/16"), sides[0].PodCIDR)
	require.Equal(t, podView(w.b.neighbor("a")), sides[0].RemappedPodCIDR)
	require.Equal(t, podView(w.a.neighbor("b")), sides[1].RemappedPodCIDR)
	require.Equal(t, channel.PathDirect, sides[1].ActivePath)
	require.EqualValues(t, 20100, sides[0].DirectRTTMicroseconds)
	require.EqualValues(t, 80400, sides[0].HubRTTMicroseconds)
	require.EqualValues(t, 1440, sides[0].MTU)
	require.NotNil(t, sides[0].Since)
	require.Contains(t, w.a.condition("c", v1alpha1.ConditionIntroductions), "True AllTaken: ab (cluster b): Accepted")

	began := time.Now()
	w.withdraw("ab")
	left := false
	until(t, "the connection is gone", func() bool {
		left = left || w.bothNeighbors(v1alpha1.PathHubOnly, true)()
		return w.connection("ab") == nil
	}, w.all()...)
	require.True(t, left, "both left the link before it went")
	require.Less(t, time.Since(began), 10*time.Second, "both told each other")
	until(t, "the tunnels are gone", w.bothNeighbors(v1alpha1.PathAny, false), w.all()...)
	until(t, "through the hub again", func() bool { return w.active("Hub") }, w.all()...)
	for _, fc := range []*v1alpha1.ForeignCluster{w.a.cluster("b"), w.b.cluster("a")} {
		require.Empty(t, fc.Spec.IntroducedBy)
		require.Empty(t, fc.Status.Introductions)
	}
}

func podView(n *v1alpha1.Neighbor) v1alpha1.CIDR {
	for _, network := range n.Spec.Networks {
		if network.Kind == v1alpha1.NetworkPod {
			return network.Local
		}
	}
	return ""
}

// The tunnel is cut and heals; both fall back meanwhile.
func TestDegraded(t *testing.T) {
	t.Parallel()
	w := joined(t)
	w.cut = true
	w.untilPhase("ab", "Degraded/DirectLinkDown: the direct link is not up")
	w.untilActive("Hub")
	w.cut = false
	w.untilPhase("ab", "Connected/")
}

func TestDeniedThenAllowed(t *testing.T) {
	t.Parallel()
	w := throughHub(t, v1alpha1.IntroductionDeny)
	w.join("ab", "a", "b", v1alpha1.ModePrefer)
	w.untilPhase("ab", "Denied/Denied: a denies it: access.introductions of ForeignCluster c is Deny there")
	require.Contains(t, w.a.condition("c", v1alpha1.ConditionIntroductions), "False NotAllTaken: ab (cluster b): Denied")
	require.False(t, w.a.cluster("b").Spec.Direct())
	w.a.change("c", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Access.Introductions = v1alpha1.IntroductionAllow })
	w.untilPhase("ab", "Connected/")
	w.a.change("c", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Access.Introductions = v1alpha1.IntroductionDeny })
	w.untilPhase("ab", "Denied/")
	until(t, "through the hub again", func() bool { return w.active("Hub") && len(w.a.neighbor("b").Spec.Peers) == 0 }, w.all()...)
}

func TestAcceptedByAnAdmin(t *testing.T) {
	t.Parallel()
	w := throughHub(t, v1alpha1.IntroductionAsk)
	w.join("ab", "a", "b", v1alpha1.ModePrefer)
	w.untilPhase("ab", "Introduced/AwaitingApproval: a: an admin has to accept ForeignCluster b there (weftctl access b --accept")
	require.Contains(t, w.a.condition("b", v1alpha1.ConditionAccepted), "False AwaitingApproval")
	require.True(t, w.a.active("b") == "Hub" && len(w.a.neighbor("b").Spec.Peers) == 0)
	w.a.change("b", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Accepted = new(true) })
	w.untilPhase("ab", "Connected/")
	require.Contains(t, w.a.condition("b", v1alpha1.ConditionAccepted), "True Accepted: introduced by c")
}

// What c alters on the way is refused, with and without a link that stands.
func TestAlteredRecord(t *testing.T) {
	t.Parallel()
	w := throughHub(t, v1alpha1.IntroductionAllow)
	w.c.alter = func(list []channel.Introduction) []channel.Introduction {
		for i := range list {
			list[i].Record = altered(list[i].Record)
		}
		return list
	}
	w.join("ab", "a", "b", v1alpha1.ModePrefer)
	w.untilPhase("ab", "Failed/InvalidRecord: a refuses the record of b: the record's signature does not match")
	require.False(t, w.a.cluster("b").Spec.Direct())
	honest := w.c.alter
	w.c.alter = nil
	w.untilPhase("ab", "Connected/")
	w.c.alter = honest
	w.untilPhase("ab", "Failed/InvalidRecord")
	require.True(t, w.active("Direct"), "what stood, stands")
	require.True(t, w.bothNeighbors(v1alpha1.PathAny, true)())
}

// a is away while the connection is made.
func TestUnreachableProvider(t *testing.T) {
	t.Parallel()
	w := throughHub(t, v1alpha1.IntroductionAllow)
	w.a.stop()
	w.join("ab", "a", "b", v1alpha1.ModePrefer)
	w.untilPhase("ab", "Pending/ProviderUnreachable: there is no channel to a (", w.b, w.c)
	require.Equal(t, v1alpha1.SideUnreachable, w.connection("ab").Status.Sides[0].State)
	w.a.start()
	w.tunnels()
	w.untilPhase("ab", "Connected/")
}

func TestReversedTwin(t *testing.T) {
	t.Parallel()
	w := joined(t)
	w.join("ba", "b", "a", v1alpha1.ModeRequire)
	w.untilPhase("ba", "Failed/Duplicate: ForeignClusterConnection ab joins the same two clusters and is older: delete one of the two")
	require.Contains(t, w.phase("ab"), "Connected/")
	require.True(t, w.bothNeighbors(v1alpha1.PathAny, true)(), "it has no say")
	// The older one goes: the link changes hands, and the mode with it.
	w.withdraw("ab")
	w.untilPhase("ba", "Connected/")
	until(t, "gone", func() bool { return w.connection("ab") == nil }, w.all()...)
	until(t, "no hub any more", w.bothNeighbors(v1alpha1.PathDirectOnly, true), w.all()...)
	require.Equal(t, []string{"c/ba"}, w.a.cluster("b").Spec.IntroducedBy)
}

// A changed mode reaches both ends; Require keeps off the hub also while the
// tunnel is down; Disabled ends the link and keeps the object.
func TestModes(t *testing.T) {
	t.Parallel()
	w := joined(t)
	w.mode("ab", v1alpha1.ModeRequire)
	until(t, "no hub any more", w.bothNeighbors(v1alpha1.PathDirectOnly, true), w.all()...)
	w.cut = true
	w.untilPhase("ab", "Degraded/")
	require.Contains(t, w.phase("ab"), "spec.mode Require keeps their traffic off the hub meanwhile")
	w.untilActive("None")
	w.mode("ab", v1alpha1.ModePrefer)
	until(t, "the hub carries", func() bool { return w.active("Hub") }, w.all()...)
	w.cut = false
	w.untilPhase("ab", "Connected/")
	w.mode("ab", v1alpha1.ModeDisabled)
	w.untilPhase("ab", "Pending/Disabled: spec.mode is Disabled")
	until(t, "the tunnels are gone", w.bothNeighbors(v1alpha1.PathAny, false), w.all()...)
	w.mode("ab", v1alpha1.ModePrefer)
	w.untilPhase("ab", "Connected/")
}

// a cannot be heard: the connection goes within the bound, b leaves at once, and
// a when it hears of it.
func TestDeletionWithoutAProvider(t *testing.T) {
	t.Parallel()
	w := joined(t)
	w.a.stop()
	w.withdraw("ab")
	for range 20 {
		w.b.turn()
		w.c.turn()
	}
	require.NotNil(t, w.connection("ab"), "a may still have it")
	w.c.later = 21 * time.Second
	until(t, "gone", func() bool { return w.connection("ab") == nil }, w.b, w.c)
	w.b.later = 11 * time.Second
	until(t, "b has left", func() bool { return len(w.b.neighbor("a").Spec.Peers) == 0 }, w.b, w.c)
	require.Len(t, w.a.cluster("b").Status.Introductions, 1)
	w.a.start()
	w.tunnels()
	until(t, "a has left", func() bool { n := w.a.neighbor("b"); return len(n.Spec.Peers) == 0 && w.active("Hub") }, w.all()...)
}

// c is switched off, and a's controller restarts: nobody misses them.
func TestLinkOutlivesItsIntroducer(t *testing.T) {
	t.Parallel()
	w := joined(t)
	w.c.stop()
	before := w.a.neighbor("b").Spec
	w.a.restart()
	w.tunnels()
	for range 30 {
		w.a.turn()
		w.b.turn()
	}
	until(t, "the channel is back", func() bool { return contains(w.a.condition("b", v1alpha1.ConditionChannelReady), "True") }, w.a, w.b)
	require.Equal(t, before, w.a.neighbor("b").Spec)
	require.True(t, w.active("Direct"))
	require.Equal(t, v1alpha1.IntroductionAccepted, w.a.cluster("b").Status.Introductions[0].State)
	w.c.start()
	w.tunnels()
	w.untilPhase("ab", "Connected/")
	require.Equal(t, before, w.a.neighbor("b").Spec)
}

// A lease runs out while c is away, and not before.
func TestLease(t *testing.T) {
	t.Parallel()
	w := joined(t)
	connection := w.connection("ab")
	connection.Spec.Lease = &metav1.Duration{Duration: time.Hour}
	require.NoError(t, w.c.client.Update(t.Context(), connection))
	expires := func(s *side, name string) *metav1.Time { return s.cluster(name).Status.Introductions[0].Expires }
	until(t, "both know the lease", func() bool { return expires(w.a, "b") != nil && expires(w.b, "a") != nil }, w.all()...)
	w.a.later, w.b.later = 30*time.Minute, 30*time.Minute
	until(t, "it is renewed", func() bool { return time.Until(expires(w.a, "b").Time) > 85*time.Minute }, w.all()...)
	w.c.stop()
	until(t, "c is not heard", func() bool { return contains(w.a.condition("c", v1alpha1.ConditionChannelReady), "False") }, w.a, w.b)
	w.a.later, w.b.later = 80*time.Minute, 80*time.Minute
	for range 10 {
		w.a.turn()
		w.b.turn()
	}
	w.untilActive("Direct")
	w.a.later, w.b.later = 95*time.Minute, 95*time.Minute
	until(t, "the link has ended", w.bothNeighbors(v1alpha1.PathAny, false), w.a, w.b)
	require.NotNil(t, w.a.cluster("b"), "c is away, and may be a hub again")
}

// Two introducers of one pair share the link; an admin's object is one more
// reason for it.
func TestAdminsPeeringOutlivesIntroduction(t *testing.T) {
	t.Parallel()
	w := newTrio(t, v1alpha1.IntroductionAllow)
	w.a.create(w.a.foreign(w.b))
	w.b.create(w.b.foreign(w.a))
	until(t, "peered", func() bool { return w.active("Direct") }, w.all()...)
	spec := w.a.cluster("b").Spec
	w.join("ab", "a", "b", v1alpha1.ModeRequire)
	w.untilPhase("ab", "Connected/")
	until(t, "the mode applies", w.bothNeighbors(v1alpha1.PathDirectOnly, true), w.all()...)
	w.withdraw("ab")
	until(t, "gone", func() bool { return w.connection("ab") == nil }, w.all()...)
	until(t, "the mode goes", w.bothNeighbors(v1alpha1.PathAny, true), w.all()...)
	require.Equal(t, spec, w.a.cluster("b").Spec)
	require.True(t, w.active("Direct"))
}

// A connection of clusters that are not there says what to do, and works once
// they are.
func TestConnectionBeforeItsClusters(t *testing.T) {
	t.Parallel()
	c := newSide(t, "c")
	w := &trio{c: c}
	w.join("xy", "x", "y", v1alpha1.ModePrefer)
	until(t, "c is ready", c.isReady, c)
	require.Contains(t, w.phase("xy"), "Pending/UnknownForeignCluster: there is no ForeignCluster x here: peer with it (weftctl peer)")
	w.withdraw("xy")
	c.turn()
	require.Nil(t, w.connection("xy"))
}

// A provider says that it has agreed to Require when its gateways hold the
// policy, not before.
func TestRequireIsAcceptedOnceInForce(t *testing.T) {
	t.Parallel()
	w := throughHub(t, v1alpha1.IntroductionAllow)
	w.a.lame = true
	w.join("ab", "a", "b", v1alpha1.ModeRequire)
	until(t, "b has agreed", func() bool {
		c := w.connection("ab")
		return len(c.Status.Sides) == 2 && c.Status.Sides[1].State == "Accepted"
	}, w.all()...)
	until(t, "a knows of it", func() bool { return w.a.neighbor("b").Spec.Paths == v1alpha1.PathDirectOnly }, w.all()...)
	require.Contains(t, w.phase("ab"), "Introduced/AwaitingAnswer: a has not answered yet")
	w.a.lame = false
	w.untilPhase("ab", "Connected/")
}

// A second introducer, which is no hub for them, joins the same pair: its mode
// counts, and the link outlives the first one's connection.
func TestTwoIntroducers(t *testing.T) {
	t.Parallel()
	w := joined(t)
	d := newSide(t, "d")
	everyone := append(w.all(), d)
	for _, s := range []*side{w.a, w.b} {
		s.connect(d)
		d.connect(s)
	}
	until(t, "d is ready", d.isReady, d)
	for _, s := range []*side{w.a, w.b} {
		up := s.foreign(d)
		up.Spec.Access.Introductions = v1alpha1.IntroductionAllow
		s.create(up)
		d.create(d.foreign(s))
	}
	w.d = d
	second := &v1alpha1.ForeignClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "also"}}
	second.Spec = v1alpha1.ForeignClusterConnectionSpec{ForeignClusterA: "b", ForeignClusterB: "a", Mode: v1alpha1.ModeRequire}
	d.create(second)
	until(t, "the strictest mode wins", w.bothNeighbors(v1alpha1.PathDirectOnly, true), everyone...)
	require.Equal(t, []string{"c/ab", "d/also"}, w.a.cluster("b").Spec.IntroducedBy)
	w.withdraw("ab")
	until(t, "the first is gone", func() bool { return w.connection("ab") == nil && len(w.b.cluster("a").Spec.IntroducedBy) == 1 }, everyone...)
	require.True(t, w.bothNeighbors(v1alpha1.PathDirectOnly, true)(), "the link stands")
	require.True(t, w.active("Direct"))
}
