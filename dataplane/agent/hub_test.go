package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
	"github.com/weft-fabric/weft/dataplane/source"
)

// Link 1 leads to b (cluster 5) directly, link 2 to c (cluster 6), which is a hub
// that leads on to b.
const (
	linkDirect, linkHub = 1, 2
	clusterB, clusterC  = 5, 6
)

// hubSnapshot is snapshot with neighbor c as a hub.
func hubSnapshot() source.Snapshot {
	s := snapshot()
	id := v1alpha1.Identity(strings.Repeat("c", 52))
	row := func(side v1alpha1.RowSide, origin int32, local, wire v1alpha1.CIDR) v1alpha1.Row {
		return v1alpha1.Row{Side: side, OwnGateway: 1, RemoteGateway: 1, OriginIndex: origin, NetworkIndex: 2, Local: local, Wire: wire}
	}
	c := v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-c", Generation: 1}}
	c.Spec = v1alpha1.NeighborSpec{
		Identity: id, ClusterIndex: clusterC,
		Peers: []v1alpha1.NeighborPeer{{
			GatewayID: 1, ChannelAddress: identity.ChannelAddress(id, 1).String(),
			Lanes: []v1alpha1.PeerLane{{Port: 51847, PublicKey: "CAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}},
		}},
		Networks: []v1alpha1.ViewNetwork{{Name: "nodes", Kind: v1alpha1.NetworkNode, Index: 2, Local: "100.72.0.0/20"}},
		Rows: []v1alpha1.Row{
			row(v1alpha1.RowOurs, clusterC, "100.72.0.0/20", "100.72.0.0/20"),
			row(v1alpha1.RowOurs, clusterB, "100.71.0.0/20", "240.3.0.0/20"),
			row(v1alpha1.RowTheirs, 0, "100.64.0.0/20", "240.8.0.0/20"),
		},
	}
	s.Neighbors = append(s.Neighbors, c)
	return s
}

// inForce are the words of an earlier agent that sends to b over a link.
func inForce(link uint32) plan.Words {
	w := plan.Words{
		Paths:   map[uint32]uint32{clusterB: link, clusterC: linkHub},
		Choices: map[uint32]uint64{clusterB: path.Pack([]uint8{1}), clusterC: path.Pack([]uint8{1})},
	}
	w.Reach.Bits[0] = 1<<clusterB | 1<<clusterC
	return w
}

func with(w plan.Words) func(*bench) { return func(b *bench) { b.executor.previous = w } }

// usesLink waits until b is sent to over a link, and returns how long it took.
func (b *bench) usesLink(link uint32) time.Duration {
	b.t.Helper()
	start := time.Now()
	require.Eventually(b.t, func() bool { return b.executor.lastWords().Paths[clusterB] == link }, patience, time.Millisecond)
	return time.Since(start)
}

// The direct path dies and the hub's takes over at once; it heals, lasts a
// second and the hold of three, and traffic returns without another event.
// Other nodes are told all the time that this gateway reaches b.
func TestFallsBackToTheHubAndReturns(t *testing.T) {
	b := start(t, hubSnapshot(), with(inForce(linkDirect)))
	b.statusWith(reasonApplied)
	c := result(clusterC, linkHub, v1alpha1.PathUp, 40)
	hub := result(clusterB, linkHub, v1alpha1.PathUp, 80)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathUp, 20), hub, c)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathDown, 0), hub, c)
	b.usesLink(linkHub)
	moved := time.Now()
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathUp, 20), hub, c)
	b.usesLink(linkDirect)
	require.Greater(t, time.Since(moved), 2900*time.Millisecond)
	require.Less(t, time.Since(moved), 5*time.Second)
	b.executor.mu.Lock()
	defer b.executor.mu.Unlock()
	for _, w := range b.executor.words {
		require.True(t, path.HasReach(w.Reach, clusterB))
		require.Equal(t, path.Pack([]uint8{1}), w.Choices[clusterB])
		require.EqualValues(t, linkHub, w.Paths[clusterC])
	}
}

// A direct path that is up already is taken after a second, whatever the probes
// have to tell.
func TestBetterPathIsTakenByTheClock(t *testing.T) {
	b := start(t, hubSnapshot(), with(inForce(linkHub)))
	b.statusWith(reasonApplied)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathUp, 20), result(clusterB, linkHub, v1alpha1.PathUp, 80))
	require.Eventually(t, func() bool {
		return b.choice.get().Reasons[path.Key{Cluster: clusterB, Link: linkDirect}] == v1alpha1.PathReasonWaiting
	}, patience, time.Millisecond)
	require.EqualValues(t, linkHub, b.executor.lastWords().Paths[clusterB])
	b.usesLink(linkDirect)
	paths := b.measurements().Paths
	require.Len(t, paths, 3)
	require.Equal(t, [3]any{"b", true, v1alpha1.PathReasonDirect}, [3]any{paths[0].Via, paths[0].Active, paths[0].Reason})
	require.Equal(t, [3]any{"c", false, v1alpha1.PathReasonSlower}, [3]any{paths[1].Via, paths[1].Active, paths[1].Reason})
}

// Round-trip times drift apart while no verdict changes.
func TestPathsAreComparedAgain(t *testing.T) {
	b := start(t, hubSnapshot(), with(inForce(linkDirect)))
	b.statusWith(reasonApplied)
	direct, hub := result(clusterB, linkDirect, v1alpha1.PathUp, 80), result(clusterB, linkHub, v1alpha1.PathUp, 80)
	direct.Since, hub.Since = time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)
	b.prober.show(direct, hub)
	require.Eventually(t, func() bool { return len(b.choice.get().Reasons) == 3 && !b.choice.get().Again.IsZero() }, patience, time.Millisecond)
	b.prober.mu.Lock()
	b.prober.seen.Paths = slices.Clone(b.prober.seen.Paths)
	b.prober.seen.Paths[0].RTTMicroseconds = 300_000
	b.prober.mu.Unlock()
	b.usesLink(linkHub)
}

// A restarted agent leaves traffic on the hub until the probes say otherwise.
func TestRestartKeepsHubPath(t *testing.T) {
	b := start(t, hubSnapshot(), with(inForce(linkHub)))
	b.statusWith(reasonApplied)
	require.Equal(t, inForce(linkHub), b.executor.lastWords())
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathUp, 20), result(clusterB, linkHub, v1alpha1.PathUnknown, 0))
	require.Eventually(t, func() bool {
		return b.choice.get().Reasons[path.Key{Cluster: clusterB, Link: linkHub}] == v1alpha1.PathReasonHeld
	}, patience, time.Millisecond)
	require.Equal(t, inForce(linkHub), b.executor.lastWords())
}

// Policy forbids the hub: traffic has left it before the plan is applied, which
// may take its time, although no direct path is up.
func TestForbiddenPathIsLeftFirst(t *testing.T) {
	b := start(t, hubSnapshot(), with(inForce(linkHub)))
	b.nextPlan()
	b.statusWith(reasonApplied)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathDown, 0), result(clusterB, linkHub, v1alpha1.PathUp, 80))
	b.source.change(func(s *source.Snapshot) {
		s.Neighbors = slices.Clone(s.Neighbors)
		s.Neighbors[0].Spec.Paths = v1alpha1.PathDirectOnly
	})
	p := b.nextPlan()
	require.NotContains(t, p.Maps.Accept, acceptKey(linkHub, clusterB))
	require.EqualValues(t, linkDirect, b.executor.wordsAtApply().Paths[clusterB])
	require.EqualValues(t, linkHub, b.executor.wordsAtApply().Paths[clusterC], "the hub's own traffic stays")
	b.source.change(func(s *source.Snapshot) {
		s.Neighbors = slices.Clone(s.Neighbors)
		s.Neighbors[0].Spec.Paths = v1alpha1.PathAny
	})
	require.Contains(t, b.nextPlan().Maps.Accept, acceptKey(linkHub, clusterB))
	require.EqualValues(t, linkDirect, b.executor.wordsAtApply().Paths[clusterB], "nothing is sent before it is accepted")
	b.usesLink(linkHub)
}

// Policy has closed the hub while no agent ran: traffic has left it before the
// first plan is applied, for the direct link if there is one.
func TestClosedHubIsLeftAtRestart(t *testing.T) {
	for what, c := range map[string]struct {
		links map[plan.LinkKey]uint16
		word  uint32
		want  uint32
	}{
		"the direct link is there": {map[plan.LinkKey]uint16{{Cluster: clusterB, RemoteGateway: 1}: 7, {Cluster: clusterC, RemoteGateway: 1}: 9}, 9, 7},
		"the direct link is new":   {map[plan.LinkKey]uint16{{Cluster: clusterC, RemoteGateway: 1}: 9}, 9, 1},
		"it is gone from the hub":  {map[plan.LinkKey]uint16{{Cluster: clusterB, RemoteGateway: 1}: 7, {Cluster: clusterC, RemoteGateway: 4}: 9}, 9, 7},
	} {
		t.Run(what, func(t *testing.T) {
			s := hubSnapshot()
			s.Neighbors[0].Spec.Paths = v1alpha1.PathDirectOnly
			b := start(t, s, with(inForce(c.word)), func(b *bench) { b.executor.links = c.links })
			b.nextPlan()
			require.Equal(t, c.want, b.executor.wordsAtApply().Paths[clusterB])
			require.EqualValues(t, linkHub, b.executor.wordsAtApply().Paths[clusterC], "other clusters' words stand")
		})
	}
}

// The direct link ends: its rows go only after the word has left them.
func TestLinkIsLeftBeforeItEnds(t *testing.T) {
	b := start(t, hubSnapshot(), with(inForce(linkDirect)))
	b.nextPlan()
	b.statusWith(reasonApplied)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathUp, 20), result(clusterB, linkHub, v1alpha1.PathUp, 80))
	b.source.change(func(s *source.Snapshot) {
		s.Neighbors = slices.Clone(s.Neighbors)
		s.Neighbors[0].Spec.Peers, s.Neighbors[0].Spec.Rows = nil, nil
	})
	require.NotContains(t, b.nextPlan().Maps.Links, uint32(linkDirect))
	require.EqualValues(t, linkHub, b.executor.wordsAtApply().Paths[clusterB])
}

// The neighbor replaces its gateway: until the new plan is in place, the old link
// carries what it can.
func TestLinkWithoutAnotherIsKept(t *testing.T) {
	b := start(t, snapshot(), with(inForce(linkDirect)))
	b.nextPlan()
	b.statusWith(reasonApplied)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathUp, 20))
	b.source.change(func(s *source.Snapshot) {
		s.Neighbors = slices.Clone(s.Neighbors)
		spec := s.Neighbors[0].Spec.DeepCopy()
		spec.Peers[0].GatewayID, spec.Peers[0].ChannelAddress = 2, identity.ChannelAddress(spec.Identity, 2).String()
		for i := range spec.Rows {
			spec.Rows[i].RemoteGateway = 2
		}
		s.Neighbors[0].Spec = *spec
	})
	require.Len(t, b.nextPlan().Names.Paths, 1)
	require.EqualValues(t, linkDirect, b.executor.wordsAtApply().Paths[clusterB])
	b.usesLink(2)
}

// What traffic leaves before a plan is applied, among a direct path (link 1) and
// that of a hub (link 2) to one cluster.
func TestWithoutLeft(t *testing.T) {
	name := func(link uint16, via int32, permitted bool) plan.PathName {
		return plan.PathName{Link: link, ClusterIndex: clusterB, ViaIndex: via, Permitted: permitted}
	}
	direct, hub := name(linkDirect, clusterB, true), name(linkHub, clusterC, true)
	noDirect, noHub := name(linkDirect, clusterB, false), name(linkHub, clusterC, false)
	otherHub := name(linkHub, 7, true)
	for what, c := range map[string]struct {
		current, next   []plan.PathName
		directUp, hubUp bool
		stays           []bool // of current
	}{
		"nothing changes":              {current: []plan.PathName{direct, hub}, next: []plan.PathName{direct, hub}, hubUp: true, stays: []bool{true, true}},
		"Require, direct is up":        {current: []plan.PathName{direct, hub}, next: []plan.PathName{direct, noHub}, directUp: true, hubUp: true, stays: []bool{true, false}},
		"Require, direct is down":      {current: []plan.PathName{direct, hub}, next: []plan.PathName{direct, noHub}, hubUp: true, stays: []bool{true, false}},
		"Require, no direct path":      {current: []plan.PathName{hub}, next: []plan.PathName{noHub}, hubUp: true, stays: []bool{false}},
		"Require, the hub goes too":    {current: []plan.PathName{direct, hub}, next: []plan.PathName{direct}, hubUp: true, stays: []bool{true, false}},
		"ending, the hub is up":        {current: []plan.PathName{direct, hub}, next: []plan.PathName{noDirect, hub}, directUp: true, hubUp: true, stays: []bool{false, true}},
		"ending, the hub is down":      {current: []plan.PathName{direct, hub}, next: []plan.PathName{noDirect, hub}, directUp: true, stays: []bool{true, true}},
		"ending, the hub is new":       {current: []plan.PathName{direct}, next: []plan.PathName{noDirect, hub}, directUp: true, stays: []bool{true}},
		"the link goes, the hub is up": {current: []plan.PathName{direct, hub}, next: []plan.PathName{hub}, hubUp: true, stays: []bool{false, true}},
		"the hub goes, nothing else":   {current: []plan.PathName{hub}, hubUp: true, stays: []bool{true}},
		"another hub gets the number":  {current: []plan.PathName{direct, hub}, next: []plan.PathName{direct, otherHub}, directUp: true, hubUp: true, stays: []bool{true, false}},
		"forbidden already":            {current: []plan.PathName{direct, noHub}, next: []plan.PathName{direct}, directUp: true, stays: []bool{true, false}},
	} {
		t.Run(what, func(t *testing.T) {
			var seen probe.Snapshot
			for link, up := range map[uint16]bool{linkDirect: c.directUp, linkHub: c.hubUp} {
				state := v1alpha1.PathDown
				if up {
					state = v1alpha1.PathUp
				}
				seen.Paths = append(seen.Paths, result(clusterB, link, state, 20))
			}
			before := slices.Clone(c.current)
			next := &plan.Names{Paths: c.next, Clusters: []plan.ClusterName{{Index: clusterB, DirectOnly: strings.HasPrefix(what, "Require")}}}
			left, some := withoutLeft(c.current, next, seen)
			require.Equal(t, before, c.current)
			var stays []bool
			changed := false
			for i, n := range left {
				stays = append(stays, n.Permitted)
				changed = changed || n.Permitted != c.current[i].Permitted
			}
			require.Equal(t, c.stays, stays)
			require.Equal(t, changed, some)
		})
	}
}

// The prober watches the path in use and the next one; a second hub's path is
// probed now and then.
func TestPaceFollowsTheChoice(t *testing.T) {
	s := hubSnapshot()
	second := *s.Neighbors[1].DeepCopy()
	second.Name, second.Spec.Identity, second.Spec.ClusterIndex = "d", v1alpha1.Identity(strings.Repeat("d", 52)), 7
	second.Spec.Peers[0].ChannelAddress = identity.ChannelAddress(second.Spec.Identity, 1).String()
	second.Spec.Peers[0].Lanes[0].PublicKey = "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	second.Spec.Networks[0].Local = "100.73.0.0/20"
	second.Spec.Rows[0].OriginIndex, second.Spec.Rows[0].Local, second.Spec.Rows[0].Wire = 7, "100.73.0.0/20", "100.73.0.0/20"
	second.Spec.Rows[1].Wire = "240.4.0.0/20"
	s.Neighbors = append(s.Neighbors, second)
	b := start(t, s)
	b.statusWith(reasonApplied)
	slow := func() []uint16 {
		var out []uint16
		for _, p := range b.prober.targets() {
			if p.Slow {
				require.EqualValues(t, clusterB, p.ClusterIndex)
				out = append(out, p.Link)
			}
		}
		return out
	}
	require.Len(t, b.prober.targets(), 5)
	require.Equal(t, []uint16{3}, slow())
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathUp, 20), result(clusterB, linkHub, v1alpha1.PathDown, 0), result(clusterB, 3, v1alpha1.PathUp, 90))
	require.Eventually(t, func() bool { return slices.Equal(slow(), []uint16{linkHub}) }, patience, time.Millisecond)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathDown, 0), result(clusterB, linkHub, v1alpha1.PathDown, 0), result(clusterB, 3, v1alpha1.PathUp, 90))
	b.usesLink(3)
	require.Eventually(t, func() bool { return slow() == nil }, patience, time.Millisecond)
}

// Words that could not be written are written a second later, without another
// event.
func TestWordsAreTriedAgain(t *testing.T) {
	b := start(t, hubSnapshot(), with(inForce(linkDirect)))
	b.statusWith(reasonApplied)
	b.executor.failWords(errBroken)
	b.prober.show(result(clusterB, linkDirect, v1alpha1.PathDown, 0), result(clusterB, linkHub, v1alpha1.PathUp, 80))
	require.Eventually(t, func() bool { return b.executor.failedWords() > 0 }, patience, time.Millisecond)
	b.executor.failWords(nil)
	require.Less(t, b.usesLink(linkHub), 3*time.Second)
}
