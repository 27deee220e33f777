package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

const (
	// window is the least time that numbered packets flow in a case.
	window = 30 * time.Second
	// calm before the first and after the last disturbance.
	calm = 5 * time.Second
	// outage of an API server.
	outage = 12 * time.Second
)

// continuity sends 1,000 numbered UDP packets a second both ways between pods
// on plain nodes and both ways between pods on gateways, disturbs something
// meanwhile, and requires that not one packet is lost.
func (s *suite) continuity(t *testing.T, disturb func(t *testing.T, ctx context.Context)) {
	t.Helper()
	ctx := bounded(t, 6*time.Minute)
	flows, err := measure.StartFlows(ctx, s.flowPairs(t, ctx))
	require.NoError(t, err)
	wait(t, ctx, calm)
	disturb(t, ctx)
	wait(t, ctx, max(calm, window-flows.Running()))
	reports, err := flows.Finish(ctx)
	require.NoError(t, err)
	t.Log("\n" + measure.Describe(reports))
	for _, r := range reports {
		require.GreaterOrEqual(t, r.Sent.Sent, uint64(window.Seconds()*measure.Rate*0.99), "the sender kept its rate")
		require.Zero(t, r.Received.SocketDropped, "the receiver itself lost nothing")
		require.Zero(t, r.Lost, "%s -> %s", r.Pair.From, r.Pair.To)
	}
}

func (s *suite) flowPairs(t *testing.T, ctx context.Context) []measure.Pair {
	t.Helper()
	var pairs []measure.Pair
	for _, a := range s.hosts["a"] {
		for _, b := range s.hosts["b"] {
			if a.Gateway != b.Gateway {
				continue
			}
			for _, ends := range [][2]testbed.Host{{a, b}, {b, a}} {
				pair, err := measure.NewPair(ctx, ends[0], ends[1])
				require.NoError(t, err)
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

// undisturbed is the control run.
func (s *suite) undisturbed(*testing.T, context.Context) {}

// killAgents ends the agent on each node with SIGKILL, one node after the
// other, and waits each time until a new one runs.
func (s *suite) killAgents(t *testing.T, ctx context.Context) {
	for _, c := range s.clusters() {
		s.killEach(t, ctx, c, testbed.Agent)
	}
}

// killControllers does the same to the controller of each cluster.
func (s *suite) killControllers(t *testing.T, ctx context.Context) {
	for _, c := range s.clusters() {
		s.killEach(t, ctx, c, testbed.Controller)
	}
}

func (s *suite) killEach(t *testing.T, ctx context.Context, c *testbed.Cluster, workload string) {
	processes, err := c.Processes(ctx, workload, "")
	require.NoError(t, err)
	require.NotEmpty(t, processes)
	for _, old := range processes {
		at := time.Now()
		fresh, err := c.Replace(ctx, workload, old, time.Minute)
		require.NoError(t, err)
		require.NotEqual(t, old.PID, fresh.PID)
		t.Logf("%s killed %s, now %s", clock(at), old, fresh)
		wait(t, ctx, 2*time.Second)
	}
}

// restartAgents replaces every agent pod in both clusters, node by node.
func (s *suite) restartAgents(t *testing.T, ctx context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range s.clusters() {
		before, err := c.Processes(ctx, testbed.Agent, "")
		require.NoError(t, err)
		group.Go(func() error {
			at := time.Now()
			if err := c.RestartDaemonSet(ctx, testbed.Agent, 3*time.Minute); err != nil {
				return err
			}
			after, err := c.Processes(ctx, testbed.Agent, "")
			t.Logf("%s rolling restart of cluster %s: %s; %s: %s", clock(at), c.Name, names(before), clock(time.Now()), names(after))
			return err
		})
	}
	require.NoError(t, group.Wait())
}

// stopAPIServers makes the API server of one cluster unreachable for a while,
// then that of the other.
func (s *suite) stopAPIServers(t *testing.T, ctx context.Context) {
	for _, c := range s.clusters() {
		require.NoError(t, s.lab.StopAPIServer(ctx, c.Name))
		down := time.Now()
		wait(t, ctx, outage)
		back := time.Now()
		require.NoError(t, s.lab.StartAPIServer(ctx, c.Name))
		t.Logf("API server of cluster %s down from %s to %s, ready at %s", c.Name, clock(down), clock(back), clock(time.Now()))
	}
}

func names(processes []testbed.Process) string {
	text := make([]string, len(processes))
	for i, p := range processes {
		text[i] = p.String()
	}
	return strings.Join(text, ", ")
}

func clock(at time.Time) string { return at.Format("15:04:05.000") }

// wait lets time pass: here, time itself is what the test is about.
func wait(t *testing.T, ctx context.Context, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		require.NoError(t, ctx.Err())
	case <-timer.C:
	}
}
