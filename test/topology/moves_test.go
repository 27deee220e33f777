package topology

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// fallbackLimit is the most datagrams of 1,000 a second that a silent cut may
// cost: it is noticed, and traffic moved, within a second.
const fallbackLimit = 1000

// moves are the changes of path between a and b.
type moves struct {
	*hubFabric
	servers map[*pod]*counter
	talk    *conversation
}

// streams flow both ways between pods on plain nodes.
func (m *moves) streams(t *testing.T) (streams []*stream) {
	t.Helper()
	for _, r := range m.podPairs() {
		if r.fromPod.node.number == 2 && r.toPod.node.number == 2 {
			streams = append(streams, startStream(t, r.name, r.from, r.to, m.servers[r.toPod]))
		}
	}
	return streams
}

func awaitMore(t *testing.T, streams []*stream, datagrams int) {
	t.Helper()
	for _, s := range streams {
		s.awaitMore(t, datagrams)
	}
}

// changeBoth changes the Neighbors that a and b have for each other and waits
// until every node has them.
func (m *moves) changeBoth(t *testing.T, change func(x, y *cluster, spec *v1alpha1.NeighborSpec)) {
	t.Helper()
	for _, pair := range m.ends() {
		pair[0].change(t, pair[1], func(spec *v1alpha1.NeighborSpec) { change(pair[0], pair[1], spec) })
	}
	for _, pair := range m.ends() {
		pair[0].awaitApplied(t)
	}
}

// allow sets which paths one of the two may take to the other.
func (m *moves) allow(t *testing.T, x, y *cluster, paths v1alpha1.PathPolicy) {
	t.Helper()
	x.change(t, y, func(spec *v1alpha1.NeighborSpec) { spec.Paths = paths })
	x.awaitApplied(t)
}

func (m *moves) allowBoth(t *testing.T, paths v1alpha1.PathPolicy) {
	t.Helper()
	m.changeBoth(t, func(_, _ *cluster, spec *v1alpha1.NeighborSpec) { spec.Paths = paths })
}

// crossing says what crosses the hub while so much more is received.
func (m *moves) crossing(t *testing.T, streams []*stream) (packets float64) {
	t.Helper()
	crossed := m.crossed(t)
	awaitMore(t, streams, 300)
	m.talk.awaitMore(t, 50)
	return m.crossed(t) - crossed
}

// awaitNothingCrosses the hub, while the streams go on. Where it may, a machine
// that is too busy to answer probes makes traffic fall back to it for a while.
func (m *moves) awaitNothingCrosses(t *testing.T, streams []*stream) {
	t.Helper()
	require.True(t, await(30*time.Second, func() bool { return m.crossing(t, streams) == 0 }), "payload goes on to cross the hub")
}

// The agents of all gateways are killed and started again in turn while traffic
// takes the hub: none is lost.
func (m *moves) testAgentsRestart(t *testing.T) {
	streams := m.streams(t)
	for _, c := range m.clusters() {
		n := c.gatewayNode()
		n.agent.kill()
		n.startAgent(m.t)
		c.awaitUp(t)
		m.awaitHubPaths(t, 1)
		awaitMore(t, streams, 100)
		require.Zero(t, n.changes(), "%s: a second start plans nothing", n.name)
	}
	requireNoLoss(t, streams)
}

// Two clusters that know each other through the hub become peers. Each first
// accepts what the other is going to send, then sends. Traffic moves by itself,
// without loss, and leaves the hub.
func (m *moves) testIntroduce(t *testing.T) {
	streams := m.streams(t)
	m.changeBoth(t, func(x, y *cluster, spec *v1alpha1.NeighborSpec) {
		spec.Peers = y.asPeers(t)
		spec.Rows = tunnel{1, 1}.rows(v1alpha1.RowOurs, spec.ClusterIndex, calls(x, y, 1, y))
	})
	m.changeBoth(t, func(x, y *cluster, spec *v1alpha1.NeighborSpec) {
		spec.Rows = append(spec.Rows, tunnel{1, 1}.ofOurselves(calls(y, x, 1, x))...)
	})
	m.awaitBoth(t, 1)
	m.awaitNothingCrosses(t, streams)
	requireNoLoss(t, streams)
	m.testPods(t)
}

// The network between the two gateways begins to swallow everything: traffic
// falls back to the hub, soon. It heals: traffic returns, and none is lost.
func (m *moves) testCut(t *testing.T) {
	streams := m.streams(t)
	crossed := m.crossed(t)
	awaitMore(t, streams, 100)
	sever(t, m.a.gatewayNode(), m.b.gatewayNode())
	awaitMore(t, streams, 500)
	m.awaitBoth(t, 0)
	for _, o := range end(t, streams) {
		t.Logf("%s: %d of %d datagrams lost in a silent cut", o.name, o.lost, o.sent)
		require.LessOrEqual(t, o.lost, fallbackLimit, "%s: lost are %s", o.name, o.to.missing(o.sent))
	}
	require.Greater(t, m.crossed(t), crossed)
	m.talk.awaitMore(t, 50)

	streams = m.streams(t)
	mend(t, m.a.gatewayNode(), m.b.gatewayNode())
	m.awaitBoth(t, 1)
	m.awaitNothingCrosses(t, streams)
	requireNoLoss(t, streams)
}

// What must not take the hub does not, in either direction, also while its own
// tunnel is down; probes of the way through the hub go on. One side's word is
// enough: what the other sends through the hub is refused.
func (m *moves) testDirectOnly(t *testing.T) {
	a, b := m.a.gatewayNode(), m.b.gatewayNode()
	m.allowBoth(t, v1alpha1.PathDirectOnly)
	m.awaitBoth(t, 1)
	streams := m.streams(t)
	awaitMore(t, streams, 100)
	require.Zero(t, m.crossing(t, streams), "payload that the hub has forwarded")
	requireNoLoss(t, streams)

	sever(t, a, b)
	for _, pair := range m.ends() {
		pair[0].gatewayNode().awaitMetrics(t, 0, m.direct(pair[0], "weft_path_up"))
	}
	crossed := m.crossed(t)
	streams = m.streams(t)
	requireAllLost(t, streams, "while the tunnel is down")
	require.Equal(t, crossed, m.crossed(t), "payload that the hub has forwarded")
	m.awaitHubPaths(t, 1)

	refused := a.counted(t, "not_accepted")
	m.allow(t, m.b, m.a, v1alpha1.PathAny)
	streams = m.streams(t)
	a.eventually(t, "refused what comes through the hub", func() bool { return a.counted(t, "not_accepted") > refused+100 })
	requireAllLost(t, streams, "while one side refuses the hub")
	m.allow(t, m.a, m.b, v1alpha1.PathAny)
	m.awaitBoth(t, 0)
	m.talk.awaitMore(t, 20)
	mend(t, a, b)
	m.awaitBoth(t, 1)
}

// One side moves off the tunnel, then the other, then both return: no packet is
// lost, because both ways are accepted all the time.
func (m *moves) testHubOnly(t *testing.T) {
	streams := m.streams(t)
	m.awaitNothingCrosses(t, streams)
	m.allow(t, m.a, m.b, v1alpha1.PathHubOnly)
	m.awaitDirect(t, m.a, 0)
	m.awaitDirect(t, m.b, 1)
	crossed := m.crossed(t)
	awaitMore(t, streams, 200)
	require.Greater(t, m.crossed(t), crossed)

	m.allow(t, m.b, m.a, v1alpha1.PathHubOnly)
	m.awaitBoth(t, 0)
	awaitMore(t, streams, 200)
	m.a.gatewayNode().awaitMetrics(t, 1, m.direct(m.a, "weft_path_up"))

	m.allowBoth(t, v1alpha1.PathAny)
	m.awaitBoth(t, 1)
	m.awaitNothingCrosses(t, streams)
	requireNoLoss(t, streams)
}

// A tunnel ends in the reverse order of how it began: traffic leaves it, each
// side stops to send, then to accept. The hub carries all again, none is lost.
func (m *moves) testPart(t *testing.T) {
	streams := m.streams(t)
	m.allowBoth(t, v1alpha1.PathHubOnly)
	m.awaitBoth(t, 0)
	m.changeBoth(t, func(x, y *cluster, spec *v1alpha1.NeighborSpec) {
		spec.Rows = tunnel{1, 1}.rows(v1alpha1.RowOurs, spec.ClusterIndex, calls(x, y, 1, y))
	})
	m.changeBoth(t, func(_, _ *cluster, spec *v1alpha1.NeighborSpec) {
		spec.Peers, spec.Rows, spec.Paths = nil, nil, v1alpha1.PathAny
	})
	awaitMore(t, streams, 200)
	m.talk.awaitMore(t, 50)
	requireNoLoss(t, streams)
	m.testPods(t)
}

// c has two gateways, and a reaches but the one, b but the other: transit
// crosses c's overlay. Both gateways are hops.
func TestHubOfTwoGateways(t *testing.T) {
	h := newHubFabric(t, 1, 2)
	h.serve(t)
	h.testThroughHub(t)
	a, b, c1, c2 := h.a.gatewayNode(), h.b.gatewayNode(), h.c.nodes[0], h.c.nodes[1]
	sever(t, a, c2)
	sever(t, b, c1)
	a.awaitMetrics(t, 0, pathMetric("weft_path_up", "c", "c", tunnel{1, 2}), h.hubPath("weft_path_up", h.b, 2))
	b.awaitMetrics(t, 0, pathMetric("weft_path_up", "c", "c", tunnel{1, 1}), h.hubPath("weft_path_up", h.a, 1))
	a.awaitMetrics(t, 1, h.hubPath("weft_path_up", h.b, 1), h.hubPath("weft_path_active", h.b, 1))
	b.awaitMetrics(t, 1, h.hubPath("weft_path_up", h.a, 2), h.hubPath("weft_path_active", h.a, 2))

	dropped := h.drops(t)
	h.testThroughHub(t)
	h.testNoDrops(t, dropped)
	h.testHubMTU(t)
	target := seenFrom(h.b.nodes[1].pods[0].address, h.aNames)
	hops := traceroute(t, h.a.nodes[1].pods[0].namespace, target)
	want := []netip.Addr{}
	for _, n := range []*node{c1, c2} {
		want = append(want, seenFrom(n.fabric, calls(h.a, h.c, 1, h.c)))
	}
	want = append(want, seenFrom(b.fabric, h.aNames), seenFrom(h.b.nodes[1].fabric, h.aNames), target)
	require.Equal(t, want, hops[2:])
}
