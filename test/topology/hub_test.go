package topology

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// hubFabric is two clusters that a third one joins.
//
//	a ── c ── b, and later a ── b
type hubFabric struct {
	*fabric
	c *cluster
}

// calls is what x calls the networks of another cluster that are behind y's
// gateway: those of y itself, or of a cluster that y is a hub to. The first
// gateway's names of y's own networks are the views.
func calls(x, y *cluster, gateway int32, origin *cluster) names {
	view := 10*(x.number-1) + origin.number
	n := names{
		pods:  prefixes{view: v1alpha1.CIDR(fmt.Sprintf("100.%d.0.0/16", 70+view))},
		nodes: prefixes{view: v1alpha1.CIDR(fmt.Sprintf("100.64.%d.0/20", 16*(3*(x.number-1)+origin.number)))},
	}
	n.pods.wire, n.nodes.wire = n.pods.view, n.nodes.view
	if origin != y || gateway != 1 {
		behind := 10*y.number + origin.number
		n.pods.wire = v1alpha1.CIDR(fmt.Sprintf("%d.%d.0.0/16", 240+gateway, behind))
		n.nodes.wire = v1alpha1.CIDR(fmt.Sprintf("%d.%d.16.0/20", 244+gateway, behind))
	}
	return n
}

// newHubFabric brings up three clusters: two with a gateway and a plain node,
// and a hub with nodes of these gateway ids, peered with both and forwarding
// between them.
func newHubFabric(t *testing.T, hubGateways ...int32) *hubFabric {
	t.Helper()
	started := time.Now()
	a, b, c := newCluster(t, "a", 1, 1500), newCluster(t, "b", 2, 1500), newCluster(t, "c", 3, 1500)
	t.Cleanup(func() { require.NoError(t, sweepNamespaces()) })
	h := &hubFabric{&fabric{t: t, a: a, b: b, hub: c, aNames: calls(a, b, 1, b), bNames: calls(b, a, 1, a)}, c}
	for _, pair := range [][2]*cluster{{a, c}, {c, b}, {a, b}} {
		connect(t, pair[0], pair[1], 1500)
	}
	a.bringUp(t, 1, 0)
	b.bringUp(t, 1, 0)
	c.bringUp(t, hubGateways...)
	h.joinHub(t, a, b)
	h.joinHub(t, b, a)
	for _, cluster := range h.clusters() {
		cluster.writeNeighbors(t)
	}
	for _, cluster := range h.clusters() {
		cluster.awaitApplied(t)
		cluster.awaitUp(t)
	}
	h.awaitHubPaths(t, 1)
	t.Logf("three clusters are up after %s", time.Since(started).Round(time.Millisecond))
	return h
}

// joinHub makes the Neighbors of x for the hub and for y behind it, and that of
// the hub for x.
func (h *hubFabric) joinHub(t *testing.T, x, y *cluster) {
	t.Helper()
	hub := &x.know(h.c, calls(x, h.c, 1, h.c)).Spec
	x.know(y, calls(x, y, 1, y))
	us := &h.c.know(x, calls(h.c, x, 1, x)).Spec
	hub.Peers, us.Peers = h.c.asPeers(t), x.asPeers(t)
	us.Transit = []int32{h.c.index(y)}
	for _, g := range h.c.gateways() {
		there, back := tunnel{1, g.gateway}, tunnel{g.gateway, 1}
		hub.Rows = append(hub.Rows, there.rows(v1alpha1.RowOurs, hub.ClusterIndex, calls(x, h.c, g.gateway, h.c))...)
		hub.Rows = append(hub.Rows, there.rows(v1alpha1.RowOurs, x.index(y), calls(x, h.c, g.gateway, y))...)
		hub.Rows = append(hub.Rows, there.ofOurselves(calls(h.c, x, 1, x))...)

		us.Rows = append(us.Rows, back.rows(v1alpha1.RowOurs, us.ClusterIndex, calls(h.c, x, 1, x))...)
		us.Rows = append(us.Rows, back.ofOurselves(calls(x, h.c, g.gateway, h.c))...)
		behind := calls(x, h.c, g.gateway, y) // as x calls y, for what the hub calls y
		view := calls(h.c, y, 1, y)
		us.Rows = append(us.Rows, back.rows(v1alpha1.RowTheirs, h.c.index(y),
			names{prefixes{view.pods.view, behind.pods.wire}, prefixes{view.nodes.view, behind.nodes.wire}})...)
	}
}

// ends are a and b, each with the other.
func (h *hubFabric) ends() [2][2]*cluster { return [2][2]*cluster{{h.a, h.b}, {h.b, h.a}} }

// hubPath is a metric of the path from x to y through a gateway of the hub.
func (h *hubFabric) hubPath(name string, y *cluster, gateway int32) string {
	return pathMetric(name, y.id, h.c.id, tunnel{1, gateway})
}

// awaitHubPaths waits until every path of a and b through the hub is up, or
// none is.
func (h *hubFabric) awaitHubPaths(t *testing.T, up float64) {
	t.Helper()
	for _, pair := range h.ends() {
		for _, g := range h.c.gateways() {
			pair[0].gatewayNode().awaitMetrics(t, up, h.hubPath("weft_path_up", pair[1], g.gateway))
		}
	}
}

// awaitDirect waits until one of a and b sends to the other over their own
// tunnel (1), or does not (0).
func (h *hubFabric) awaitDirect(t *testing.T, x *cluster, active float64) {
	t.Helper()
	x.gatewayNode().awaitMetrics(t, active, h.direct(x, "weft_path_active"))
}

// awaitBoth waits until a and b send to each other over their own tunnel (1) or
// over the hub (0).
func (h *hubFabric) awaitBoth(t *testing.T, direct float64) {
	t.Helper()
	for _, pair := range h.ends() {
		h.awaitDirect(t, pair[0], direct)
	}
}

// crossed counts the packets between a and b that the hub has forwarded.
func (h *hubFabric) crossed(t *testing.T) (packets float64) {
	t.Helper()
	for _, n := range h.c.gateways() {
		packets += n.counted(t, "transit")
	}
	return packets
}

// sever the network between two nodes: their packets vanish.
func sever(t *testing.T, x, y *node) {
	t.Helper()
	x.cluster.router.nft(t, fmt.Sprintf(`table ip cut-%s-%s {
		chain forward {
			type filter hook forward priority 0;
			ip saddr %[3]s ip daddr %[4]s drop
			ip saddr %[4]s ip daddr %[3]s drop
		}
	}`, x.name, y.name, x.underlay, y.underlay))
}

func mend(t *testing.T, x, y *node) {
	t.Helper()
	x.cluster.router.nft(t, fmt.Sprintf("delete table ip cut-%s-%s", x.name, y.name))
}

// a and b know each other through c only, then have a tunnel of their own, lose
// and regain it, and give it up: the addresses that their pods use stay, and one
// TCP connection lives through it all.
func TestHub(t *testing.T) {
	h := newHubFabric(t, 1)
	servers := h.serve(t)
	dropped := h.drops(t)
	t.Run("pods reach pods through the hub", h.testThroughHub)
	t.Run("hosts reach pods through the hub", h.testHosts)
	t.Run("bulk with and without offloads", h.testBulk)
	t.Run("nothing was dropped", func(t *testing.T) { h.testNoDrops(t, dropped) })
	t.Run("traceroute shows the hub", h.testHubTraceroute)
	t.Run("the hub tells its MTU", h.testHubMTU)
	t.Run("transit ends with its grant", func(t *testing.T) { h.testTransitRefused(t, servers) })

	from, to := h.a.nodes[1].pods[0], h.b.nodes[1].pods[0]
	talk := startConversation(t, "connection from a to b", from.namespace, seenFrom(to.address, h.aNames))
	s := &moves{h, servers, talk}
	for _, step := range []struct {
		name string
		test func(*testing.T)
	}{
		{"agents restart", s.testAgentsRestart},
		{"a direct tunnel takes over", s.testIntroduce},
		{"silent cut and healing", s.testCut},
		{"direct only", s.testDirectOnly},
		{"hub only", s.testHubOnly},
		{"the direct tunnel ends", s.testPart},
	} {
		t.Run(step.name, step.test)
		talk.awaitMore(t, 20)
	}
	talk.end(t)
}

// Pod of a → lane → c's lane ingress, transit → c's lane egress → b's pod, and
// back; each sees the other by the name that it would have without a hub.
func (h *hubFabric) testThroughHub(t *testing.T) {
	before := h.crossed(t)
	h.testPods(t)
	require.Greater(t, h.crossed(t), before, "the hub counts what it forwards")
	h.testLargeDatagrams(t)
}

// The hops from a's pod to b's: own node, own gateway, the hub's gateway, b's
// gateway, b's node, pod; the hub's answers by the name that a has for it.
func (h *hubFabric) testHubTraceroute(t *testing.T) {
	target := seenFrom(h.b.nodes[1].pods[0].address, h.aNames)
	hops := traceroute(t, h.a.nodes[1].pods[0].namespace, target)
	gateways := []netip.Addr{seenFrom(h.c.gatewayNode().fabric, calls(h.a, h.c, 1, h.c)), seenFrom(h.b.gatewayNode().fabric, h.aNames)}
	require.Len(t, hops, 6, "hops %v", hops)
	require.Equal(t, gateways, hops[2:4], "hops %v", hops)
	require.Equal(t, []netip.Addr{seenFrom(h.b.nodes[1].fabric, h.aNames), target}, hops[4:])
}

// What is too big for the hub's other tunnel alone is an error to the sender,
// with the right MTU, or goes on in fragments where that is allowed.
func (h *hubFabric) testHubMTU(t *testing.T) {
	const mtu, headers = 1376, 28
	from, to := h.a.nodes[1].pods[0].namespace, seenFrom(h.b.nodes[1].pods[0].address, h.aNames)
	usual := h.c.neighbors["b"].Spec.MTU
	set := func(mtu int32) {
		h.c.change(t, h.b, func(spec *v1alpha1.NeighborSpec) { spec.MTU = mtu })
		h.c.awaitApplied(t)
	}
	set(mtu)
	defer set(usual)
	server := netip.AddrPortFrom(to, echoPort)
	conn, err := dial(from, "udp4", server)
	require.NoError(t, err)
	defer conn.Close()
	fragment := func(discover int) {
		control(t, conn, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, discover) })
	}
	fragment(unix.IP_PMTUDISC_DONT)
	_, err = exchange(conn, server, random(mtu+1-headers))
	require.NoError(t, err, "a datagram that may be fragmented")
	fragment(unix.IP_PMTUDISC_DO)
	require.True(t, await(patience, func() bool {
		_, err := conn.Write(random(mtu + 1 - headers))
		return errors.Is(err, unix.EMSGSIZE)
	}), "one byte more than the hub carries is no error")
	var told int
	control(t, conn, func(fd int) (err error) {
		told, err = unix.GetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU)
		return err
	})
	require.Equal(t, mtu, told)
}

// Without the grant the hub forwards neither payload nor probes, and says so;
// the hub's own pods are reached all the same.
func (h *hubFabric) testTransitRefused(t *testing.T, servers map[*pod]*counter) {
	grant := func(ofA, ofB []int32) {
		h.c.change(t, h.a, func(spec *v1alpha1.NeighborSpec) { spec.Transit = ofA })
		h.c.change(t, h.b, func(spec *v1alpha1.NeighborSpec) { spec.Transit = ofB })
		h.c.awaitApplied(t)
	}
	hub := h.c.gatewayNode()
	grant(nil, nil)
	h.awaitHubPaths(t, 0)
	crossed, refused := h.crossed(t), hub.counted(t, "no_transit")
	pair := h.podPairs()[0]
	streams := []*stream{startStream(t, pair.name, pair.from, pair.to, servers[pair.toPod])}
	hub.eventually(t, "refused payload", func() bool { return hub.counted(t, "no_transit") > refused+200 })
	requireAllLost(t, streams, "without the grant")
	require.Equal(t, crossed, h.crossed(t))
	require.NoError(t, ping(pair.from, seenFrom(hub.pods[0].address, calls(h.a, h.c, 1, h.c))), "pod of the hub itself")

	// Either of the two names the other: that is enough, both ways.
	grant([]int32{h.c.index(h.b)}, nil)
	h.awaitHubPaths(t, 1)
	h.testPods(t)
	grant([]int32{h.c.index(h.b)}, []int32{h.c.index(h.a)})
}
