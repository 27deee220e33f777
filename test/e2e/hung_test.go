package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/lookup"
)

const (
	// answerLimit of a look-up: programs ask again, or give up, after 5 s.
	answerLimit = 5 * time.Second
	// silentLimit from a hung replica's last answer until the Service sends it none.
	silentLimit = 10 * time.Second
	// restartLimit bounds what the kubelet takes to start it again.
	restartLimit = time.Minute
)

// hung: in a all replicas of weft-dns but one hang, in c all do. The name in use
// keeps its address, the service is called on, and the kubelet restarts them.
func (v *service) hung(t *testing.T) {
	ctx := bounded(t, 4*time.Minute)
	v.resolves(t, ctx)
	since := time.Now()
	hungAll, hungSome := v.hang(t, ctx, v.c, 0), v.hang(t, ctx, v.a, 1)
	looked := v.lookOn(ctx)
	called := v.callOn(ctx, v.callAddress)

	// The zone is out of reach in c, which only a question that is new there shows.
	unanswered := v.port(ctx, v.c)
	require.True(t, unanswered.Failed(), unanswered.String())
	var group errgroup.Group
	group.Go(func() error { return v.revived(t, ctx, v.c, 0, hungAll) })
	group.Go(func() error { return v.revived(t, ctx, v.a, 1, hungSome) })
	require.NoError(t, group.Wait())
	require.Eventually(t, func() bool { return len(v.port(ctx, v.c).Result.Records) == 1 }, answerLimit, 200*time.Millisecond, "names return")

	looked(t)
	v.allAnswered(t, called)
	require.NoError(t, v.shared.Kept(ctx, since, v.backends))
}

// hang stops the replicas of weft-dns in a cluster, but for so many, and returns
// those.
func (v *service) hang(t *testing.T, ctx context.Context, c *testbed.Cluster, but int) []testbed.Process {
	t.Helper()
	require.NoError(t, c.AwaitReady(ctx, testbed.DNS, 2, restartLimit))
	replicas, err := c.Processes(ctx, testbed.DNS, "")
	require.NoError(t, err)
	require.Len(t, replicas, 2)
	for _, p := range replicas[but:] {
		require.NoError(t, p.Hang())
		t.Logf("%s hung %s", clock(time.Now()), p)
	}
	return replicas[but:]
}

// revived: only the ready replicas stay in the Service, and all return.
func (v *service) revived(t *testing.T, ctx context.Context, c *testbed.Cluster, ready int, hung []testbed.Process) error {
	if err := c.AwaitReady(ctx, testbed.DNS, ready, silentLimit); err != nil {
		return err
	}
	t.Logf("%s cluster %s: %d not ready", clock(time.Now()), c.Name, len(hung))
	for _, p := range hung {
		fresh, err := c.AwaitReplaced(ctx, testbed.DNS, p, restartLimit)
		if err != nil {
			return err
		}
		t.Logf("%s cluster %s: restarted %s", clock(time.Now()), c.Name, fresh)
	}
	return c.AwaitReady(ctx, testbed.DNS, ready+len(hung), restartLimit)
}

// port asks for the service's port in a cluster's pods, which nobody else does: no
// cache has it.
func (v *service) port(ctx context.Context, c *testbed.Cluster) measure.LookedUp {
	return measure.Lookup(ctx, v.hosts[c.Name][0], lookup.Request{Name: "_echo._tcp." + testbed.ServiceDomain, Type: "SRV"})
}

// lookOn resolves the name again and again until finish, which requires that it
// had its address each time, and soon.
func (v *service) lookOn(ctx context.Context) (finish func(t *testing.T)) {
	var ends []func() []measure.LookedUp
	for _, caller := range v.callers {
		ends = append(ends, measure.LookOn(ctx, caller.Host))
	}
	return func(t *testing.T) {
		t.Helper()
		for i, end := range ends {
			var slowest time.Duration
			all := end()
			for _, one := range all {
				require.True(t, one.Resolved(v.addresses[i]), one.String())
				slowest = max(slowest, one.Took())
			}
			t.Logf("%d look-ups in %s, the slowest after %.2f s", len(all), v.callers[i], slowest.Seconds())
			require.LessOrEqual(t, slowest, answerLimit)
		}
	}
}
