package topology

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first gateway's wire prefixes are the views: one rewrite fewer.
func TestWirePrefixesAreViews(t *testing.T) {
	f := newFabric(t, options{bMTU: 1500},
		names{pods: prefixes{"100.70.0.0/16", "100.70.0.0/16"}, nodes: prefixes{"100.64.16.0/20", "100.64.16.0/20"}},
		names{pods: prefixes{"100.71.0.0/16", "100.71.0.0/16"}, nodes: prefixes{"100.64.32.0/20", "100.64.32.0/20"}})
	f.testAll(t)
}

// Any further gateway has wire prefixes of its own, here at both ends. The
// underlays' MTUs differ too.
func TestWirePrefixesDifferFromViews(t *testing.T) {
	f := newFabric(t, options{bMTU: 1400},
		names{pods: prefixes{"100.70.0.0/16", "240.1.0.0/16"}, nodes: prefixes{"100.64.16.0/20", "240.3.16.0/20"}},
		names{pods: prefixes{"100.71.0.0/16", "241.200.0.0/16"}, nodes: prefixes{"100.64.32.0/20", "242.9.240.0/20"}})
	f.testAll(t)
}

// b is behind a source NAT and publishes no endpoint: it dials, and a learns
// where it is. When the NAT forgets and maps anew, a follows.
func TestBehindNAT(t *testing.T) {
	f := newFabric(t, options{bMTU: 1500, nat: true},
		names{pods: prefixes{"100.70.0.0/16", "100.70.0.0/16"}, nodes: prefixes{"100.64.16.0/20", "100.64.16.0/20"}},
		names{pods: prefixes{"100.71.0.0/16", "100.71.0.0/16"}, nodes: prefixes{"100.64.32.0/20", "100.64.32.0/20"}})
	f.serve(t)
	f.testPods(t)
	f.b.masquerade(t, 41000)
	mustRun(t, "nsenter", "--net=/run/netns/"+f.b.router.name, "--", "conntrack", "-D", "-p", "udp")
	for _, r := range f.podPairs() {
		require.True(t, await(4*patience, func() bool { return ping(r.from, r.to) == nil }), "%s after the NAT has changed", r.name)
	}
	f.testPods(t)
}

// testAll runs every scenario on one fabric, the one that ends it last.
func (f *fabric) testAll(t *testing.T) {
	servers := f.serve(t)
	dropped := f.drops(t)
	t.Run("pods reach pods", f.testPods)
	t.Run("hosts reach pods", f.testHosts)
	t.Run("node ports lead to remote pods", f.testNodePort)
	t.Run("peers do not reach the nodes' own ports", f.testNodeIsClosed)
	t.Run("large datagrams", f.testLargeDatagrams)
	t.Run("path MTU", f.testPathMTU)
	t.Run("bulk with and without offloads", f.testBulk)
	t.Run("segmented datagrams", func(t *testing.T) { f.testSegmentedDatagrams(t, servers) })
	t.Run("nothing was dropped", func(t *testing.T) { f.testNoDrops(t, dropped) })
	t.Run("traceroute", f.testTraceroute)
	t.Run("peer channel", f.testChannel)
	t.Run("ungranted peers", f.testAccess)
	t.Run("forged overlay packets", f.testForged)
	t.Run("agents die and restart", func(t *testing.T) { f.testRestart(t, servers) })
	t.Run("unreadable objects", f.testUnreadableObjects)
	t.Run("repairs", f.testRepairs)
	t.Run("a gateway reboots", f.testReboot)
	t.Run("teardown", f.testTeardown)
}

// serve starts the servers of every pod.
func (f *fabric) serve(t *testing.T) map[*pod]*counter {
	t.Helper()
	servers := map[*pod]*counter{}
	for _, c := range f.clusters() {
		for _, n := range c.nodes {
			for _, p := range n.pods {
				servers[p] = serve(t, p.namespace)
			}
		}
	}
	return servers
}

// remote is an address in the other cluster, as a namespace of this one names
// it, and the name that this one has over there.
type remote struct {
	name           string
	from           namespace
	to             netip.Addr // in our view
	source         netip.Addr // of from, in the other's view
	toPod, fromPod *pod
}

// podPairs are all ordered pairs of pods across the clusters.
func (f *fabric) podPairs() []remote {
	var pairs []remote
	for _, d := range []struct {
		from, to         *cluster
		ours, theirNames names
	}{{f.a, f.b, f.aNames, f.bNames}, {f.b, f.a, f.bNames, f.aNames}} {
		for _, n := range d.from.nodes {
			for _, m := range d.to.nodes {
				p, q := n.pods[0], m.pods[0]
				pairs = append(pairs, remote{
					name: p.name + " to " + q.name, from: p.namespace, fromPod: p, toPod: q,
					to: seenFrom(q.address, d.ours), source: seenFrom(p.address, d.theirNames),
				})
			}
		}
	}
	return pairs
}

// Pod on a plain node or on the gateway → … → pod on a plain
// node or on the gateway, and back. The server sees the client under its own
// cluster's name for it.
func (f *fabric) testPods(t *testing.T) {
	for _, r := range f.podPairs() {
		for _, network := range []string{"tcp4", "udp4"} {
			seen, err := echoed(r.from, network, r.to, random(1000))
			require.NoError(t, err, "%s, %s", r.name, network)
			require.Equal(t, r.source, seen, "%s, %s: source that the server saw", r.name, network)
		}
		require.NoError(t, ping(r.from, r.to), r.name)
	}
}

// A process on the host network leaves with its node's fabric address,
// and every pod reaches the fabric address of every remote node with an echo.
func (f *fabric) testHosts(t *testing.T) {
	for _, r := range f.podPairs() {
		host := r.fromPod.node
		theirNames, ours := f.bNames, f.aNames
		if host.cluster == f.b {
			theirNames, ours = f.aNames, f.bNames
		}
		source := seenFrom(host.fabric, theirNames)
		for _, network := range []string{"tcp4", "udp4"} {
			seen, err := echoed(host.namespace, network, r.to, random(1000))
			require.NoError(t, err, "host %s to %s, %s", host.name, r.toPod.name, network)
			require.Equal(t, source, seen, "host %s to %s, %s: source that the server saw", host.name, r.toPod.name, network)
		}
		require.NoError(t, ping(host.namespace, r.to), "host %s to %s", host.name, r.toPod.name)
		remoteHost := seenFrom(r.toPod.node.fabric, ours)
		require.NoError(t, ping(r.from, remoteHost), "%s to host %s", r.fromPod.name, r.toPod.node.name)
		require.NoError(t, ping(host.namespace, remoteHost), "host %s to host %s", host.name, r.toPod.node.name)
	}
}

// A client outside of the cluster → a node's port → DNAT, as kube-proxy
// does for a NodePort → remote pod. It leaves with the node's fabric address.
func (f *fabric) testNodePort(t *testing.T) {
	for _, r := range f.podPairs() {
		n := r.fromPod.node
		theirNames := f.bNames
		if n.cluster == f.b {
			theirNames = f.aNames
		}
		n.nft(t, fmt.Sprintf(`table ip nodeport
			delete table ip nodeport
			table ip nodeport {
				chain in {
					type nat hook prerouting priority -100;
					ip daddr %s tcp dport 30080 dnat to %s:%d
				}
			}`, n.underlay, r.to, echoPort))
		seen, err := echoedAt(n.cluster.router, "tcp4", netip.AddrPortFrom(n.underlay, 30080), random(100_000))
		require.NoError(t, err, "port of %s to %s", n.name, r.toPod.name)
		require.Equal(t, seenFrom(n.fabric, theirNames), seen, "port of %s to %s", n.name, r.toPod.name)
		n.nft(t, "delete table ip nodeport")
	}
}

// A peer's pods reach our pods, not what our nodes listen on (a kubelet, say).
func (f *fabric) testNodeIsClosed(t *testing.T) {
	target := f.b.nodes[1]
	serve(t, target.namespace)
	_, err := echoed(f.b.router, "tcp4", target.underlay, random(10))
	require.NoError(t, err, "the port is open to its own network")
	conn, err := dialWithin(f.a.nodes[1].pods[0].namespace, "tcp4", netip.AddrPortFrom(seenFrom(target.fabric, f.aNames), echoPort), silence)
	if err == nil {
		conn.Close()
	}
	require.Error(t, err, "a remote pod reached a port of the node")
}

// An 8 KB datagram crosses whole, both ways: its answer is as large.
func (f *fabric) testLargeDatagrams(t *testing.T) {
	for _, r := range f.podPairs() {
		seen, err := echoed(r.from, "udp4", r.to, random(8192))
		require.NoError(t, err, r.name)
		require.Equal(t, r.source, seen, r.name)
	}
}

// drops of all nodes by node and reason. A node that probes before another one
// knows it is among them, so what counts is that they do not grow.
func (f *fabric) drops(t *testing.T) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, c := range f.clusters() {
		for _, n := range c.nodes {
			for reason, packets := range n.drops(t) {
				all[n.name+" "+reason] = packets
			}
		}
	}
	return all
}

// What crossed so far was all legitimate: no node has dropped any of it, and no
// outer packet was too large for the underlay.
func (f *fabric) testNoDrops(t *testing.T, before map[string]float64) {
	require.Equal(t, before, f.drops(t))
	for _, c := range []*cluster{f.a, f.b} {
		for _, n := range c.nodes {
			require.Zero(t, n.nftCounter(t, "ip cni invalid"), "%s: invalid by connection tracking", n.name)
		}
		fragments := f.direct(c, "weft_path_outer_fragments_total")
		require.Zero(t, c.gatewayNode().metric(t, fragments), "outer packets of %s that had to be fragmented", c.id)
	}
}
