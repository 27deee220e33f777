package topology

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/wan"
)

// Two gateways are so far apart that both would dial before either has heard the
// other: when they hear of each other, and when both lose their WireGuard. If both
// dialed, their initiations would cross and neither handshake come about, as an
// end that answers gives up its own; both would try again after 5 s
// (REKEY_TIMEOUT), and cross again.
func TestFarApart(t *testing.T) {
	const delay = 300 * time.Millisecond
	a, b := newCluster(t, "a", 1, 1500), newCluster(t, "b", 2, 1500)
	t.Cleanup(func() { require.NoError(t, sweepNamespaces()) })
	drawOut(t, a, b, delay)
	aNames := names{pods: prefixes{"100.70.0.0/16", "100.70.0.0/16"}, nodes: prefixes{"100.64.16.0/20", "100.64.16.0/20"}}
	bNames := names{pods: prefixes{"100.71.0.0/16", "100.71.0.0/16"}, nodes: prefixes{"100.64.32.0/20", "100.64.32.0/20"}}
	for _, c := range []*cluster{a, b} {
		c.bringUp(t, 1)
		c.gatewayNode().lane(t)
	}
	peered := time.Now()
	a.peer(t, b, aNames, bNames)
	b.peer(t, a, bNames, aNames)
	a.awaitUp(t)
	b.awaitUp(t)
	took := time.Since(peered)
	require.Greater(t, took, 2*delay, "the line is as long as it is meant to be")
	t.Logf("both are up %.1f s after they heard of each other", took.Seconds())

	gateways := []*node{a.gatewayNode(), b.gatewayNode()}
	for _, n := range gateways {
		n.eventually(t, "kept where it heard its peer", func() bool {
			content, err := os.ReadFile(n.file("/var/lib/weft/endpoints.json"))
			return err == nil && strings.Contains(string(content), ":")
		})
		n.wireguard.kill()
	}
	a.awaitDown(t, b)
	b.awaitDown(t, a)
	restarted := time.Now()
	for _, n := range gateways {
		n.startWireguard(t)
	}
	a.awaitUp(t)
	b.awaitUp(t)
	took = time.Since(restarted)
	require.Greater(t, took, 2*delay)
	require.Less(t, took, 15*time.Second, "one turn of each, and a retry")
	t.Logf("both are up %.1f s after both tunnels were made anew", took.Seconds())
}

// awaitDown waits until no probe to the other cluster is answered.
func (c *cluster) awaitDown(t *testing.T, other *cluster) {
	t.Helper()
	c.gatewayNode().awaitMetrics(t, 0, pathMetric("weft_path_up", other.id, other.id, tunnel{1, 1}))
}

// drawOut joins the routers of two clusters by a line with a delay each way.
func drawOut(t *testing.T, a, b *cluster, delay time.Duration) {
	t.Helper()
	var files [2]*os.File
	for i, c := range []*cluster{a, b} {
		var err error
		files[i], err = wan.End{Namespace: c.router.name, Device: "wan-" + []*cluster{b, a}[i].id}.Open()
		require.NoError(t, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = wan.Join(context.Background(), files[0], files[1],
			wan.NewLine(files[1], delay, wan.DefaultQueueBytes), wan.NewLine(files[0], delay, wan.DefaultQueueBytes))
	}()
	t.Cleanup(func() {
		a.router.ip(t, "link delete wan-"+b.id) // ends the line
		b.router.ip(t, "link delete wan-"+a.id)
		<-ended
		require.NoError(t, files[0].Close())
		require.NoError(t, files[1].Close())
	})
	route(t, a, b)
}
