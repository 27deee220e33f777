package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Numbered datagrams flow both ways at 1,000 a second while the agent of every
// node in turn is killed and started again, and then stopped and started again:
// none is lost, and the new agent finds nothing to do.
func (f *fabric) testRestart(t *testing.T, servers map[*pod]*counter) {
	var streams []*stream
	for _, r := range f.podPairs() {
		if r.fromPod.node.number == 2 && r.toPod.node.number == 2 {
			streams = append(streams, startStream(t, r.name, r.from, r.to, servers[r.toPod]))
		}
	}
	for _, end := range []func(*node){
		func(n *node) { n.agent.kill() },
		func(n *node) { n.agent.stop(t) },
	} {
		for _, c := range []*cluster{f.a, f.b} {
			for _, n := range c.nodes {
				end(n)
				n.startAgent(f.t)
				c.awaitUp(t)
				// Some more traffic over what the new agent found.
				for _, s := range streams {
					s.awaitMore(t, 100)
				}
				require.Zero(t, n.changes(), "%s: a second start plans nothing", n.name)
			}
		}
	}
	defer func() {
		if t.Failed() {
			for _, c := range []*cluster{f.a, f.b} {
				t.Log(c.gatewayNode().name, c.gatewayNode().ip(t, "-s link show weft0"))
			}
		}
	}()
	requireNoLoss(t, streams)
}

// While the objects cannot be read, everything stays as it is, also over a
// restart of the agent.
func (f *fabric) testUnreadableObjects(t *testing.T) {
	const complaint = "cannot be read"
	garbage := filepath.Join(f.a.directory, "garbage.yaml")
	require.NoError(t, os.WriteFile(garbage, []byte("kind: [unclear"), 0o600))
	for _, n := range f.a.nodes {
		n.eventually(t, "complained of the objects", func() bool { return strings.Contains(n.agent.log.String(), complaint) })
		n.agent.kill()
		n.startAgent(f.t)
		n.eventually(t, "complained of the objects again", func() bool { return strings.Contains(n.agent.log.String(), complaint) })
	}
	f.testPods(t)
	for _, n := range f.a.nodes {
		require.Zero(t, n.changes(), n.name)
	}
	require.NoError(t, os.Remove(garbage))
	f.a.awaitUp(t)
}

// What others delete comes back, and traffic with it: on the gateway and on a
// plain node, one thing at a time.
func (f *fabric) testRepairs(t *testing.T) {
	gateway, plain := f.a.gatewayNode(), f.a.nodes[1]
	from, to := plain.pods[0].namespace, seenFrom(f.b.nodes[1].pods[0].address, f.aNames)
	for _, c := range []struct {
		what string
		harm func(*node)
		on   []*node
	}{
		{"the overlay device", func(n *node) { n.ip(t, "link delete weft-vx") }, []*node{gateway, plain}},
		{"the overlay device's state", func(n *node) { n.ip(t, "link set weft-vx down") }, []*node{gateway, plain}},
		{"the fabric address", func(n *node) { n.ip(t, "addr delete "+n.fabric.String()+"/32 dev weft-vx") }, []*node{plain}},
		{"the rule", func(n *node) { n.ip(t, "rule delete priority 105") }, []*node{gateway, plain}},
		{"the routes", func(n *node) { n.ip(t, "route flush table 7077") }, []*node{gateway, plain}},
		{"the nftables table", func(n *node) { n.nft(t, "delete table inet weft") }, []*node{gateway, plain}},
		{"the lane", func(n *node) { n.ip(t, "link delete weft0") }, []*node{gateway}},
		{"userspace WireGuard", func(n *node) {
			n.wireguard.kill()
			n.startWireguard(f.t)
		}, []*node{gateway}},
	} {
		for _, n := range c.on {
			before := n.changes()
			c.harm(n)
			n.eventually(t, "repaired "+c.what, func() bool { return n.changes() > before })
			n.eventually(t, "carried traffic again without "+c.what, func() bool {
				_, err := echoed(from, "udp4", to, random(100))
				return err == nil
			})
		}
	}
}

// A gateway reboots: devices, rules, tables and pins are gone, what is on disk
// (the lane's key) is there. It comes back by itself, as the same peer.
func (f *fabric) testReboot(t *testing.T) {
	n := f.a.gatewayNode()
	key := n.status(t).Lanes[0].PublicKey
	n.agent.kill()
	n.wireguard.kill()
	n.ip(t, "link delete weft-vx")
	n.ip(t, "link delete weft0")
	n.ip(t, "rule delete priority 105")
	n.nft(t, "delete table inet weft")
	require.NoError(t, os.RemoveAll(n.file("/sys/fs/bpf/weft")))
	for _, folder := range []string{"/run/weft", "/run/wireguard"} {
		require.NoError(t, os.RemoveAll(n.file(folder)))
	}
	r := f.podPairs()[0]
	require.Error(t, ping(r.from, r.to), "without the gateway")
	n.startWireguard(f.t)
	n.startAgent(f.t)
	n.eventually(t, "carried traffic after a reboot", func() bool { return ping(r.from, r.to) == nil })
	f.testPods(t)
	require.Equal(t, key, n.status(t).Lanes[0].PublicKey)
}

// changes counts what the agent that runs has changed on the node.
func (n *node) changes() int { return strings.Count(n.agent.log.String(), "msg=applied") }

// A FabricConfig that is being deleted takes all of Weft off the nodes.
func (f *fabric) testTeardown(t *testing.T) {
	for _, c := range []*cluster{f.a, f.b} {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		c.config.DeletionTimestamp, c.config.Finalizers = &now, []string{v1alpha1.Finalizer}
		c.write(t, "config.yaml", c.config)
		for _, n := range c.nodes {
			n.eventually(t, "said that it is torn down", func() bool { return n.tornDown(t) })
			require.NotRegexp(t, `(?m)^weft`, n.ip(t, "-brief link show"), "devices of %s", n.name)
			require.NotContains(t, n.ip(t, "rule show"), "105:", "rules of %s", n.name)
			require.Empty(t, strings.TrimSpace(n.routes()), "routes of %s", n.name)
			require.NotContains(t, mustRun(t, "ip", "netns", "exec", n.namespace.name, "nft", "list", "tables"), "weft", "nftables of %s", n.name)
			require.NoDirExists(t, n.file("/sys/fs/bpf/weft"), "pins of %s", n.name)
			require.Empty(t, n.files(t, "/var/lib/weft"), "state of %s", n.name)
			n.agent.stop(t)
			n.wireguard.stop(t)
		}
	}
}

// routes of Weft's table; the kernel calls a table without routes an error.
func (n *node) routes() string {
	output, err := run("ip", "-n", n.namespace.name, "route", "show", "table", "7077")
	if err != nil {
		return ""
	}
	return output
}

func (n *node) tornDown(t *testing.T) bool {
	status := n.status(t)
	if status == nil {
		return false
	}
	for _, c := range status.Conditions {
		if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonTornDown {
			return true
		}
	}
	return false
}
