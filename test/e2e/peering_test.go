package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/control"
	"github.com/weft-fabric/weft/tools/traffic/echo"
)

// unpeerLimit is promised, whatever the other side does.
const unpeerLimit = 30 * time.Second

func (s *suite) peer(t *testing.T) {
	require.NoError(t, testbed.Peer(bounded(t, 3*time.Minute), s.a, s.b))
	for c, other := range s.both() {
		require.NoError(t, c.WaitConnected(t.Context(), other.Name, time.Second))
	}
}

// both maps each cluster to the other.
func (s *suite) both() map[*testbed.Cluster]*testbed.Cluster {
	return map[*testbed.Cluster]*testbed.Cluster{s.a: s.b, s.b: s.a}
}

// gap between the two halves of a peering: five minutes in a full run; a quick
// run has no time for that and waits long enough for the first side to have
// failed and to be backing off.
func gap() time.Duration {
	if full() {
		return 5 * time.Minute
	}
	return 15 * time.Second
}

// applyRecords applies what `weftctl record` prints, first in one cluster, much
// later in the other, and requires both to be connected within 60 s of that.
func (s *suite) applyRecords(t *testing.T, first, second *testbed.Cluster) {
	ctx := bounded(t, gap()+4*time.Minute)
	apply(t, ctx, first, second)
	wait(t, ctx, gap())
	require.Error(t, first.WaitConnected(ctx, second.Name, time.Second), "connected before the other side knew of it")
	apply(t, ctx, second, first)
	at := time.Now()
	for c, other := range s.both() {
		require.NoError(t, c.WaitConnected(ctx, other.Name, connectLimit-time.Since(at)))
	}
	t.Logf("cluster %s first, cluster %s %s later: both connected %.1f s after the second", first.Name, second.Name, gap(), time.Since(at).Seconds())
}

// apply creates in cluster to the ForeignCluster that cluster of prints.
func apply(t *testing.T, ctx context.Context, to, of *testbed.Cluster) {
	t.Helper()
	record, err := of.Record(ctx)
	require.NoError(t, err)
	var fcl v1alpha1.ForeignCluster
	require.NoError(t, yaml.UnmarshalStrict(record, &fcl))
	require.Equal(t, of.Name, fcl.Name)
	fcl.Spec.Access.Pods = v1alpha1.PodAccessAll
	require.NoError(t, to.Create(ctx, &fcl))
}

// unpeer ends the peering on both sides, each within its limit, and requires
// that only PrefixClaims remain.
func (s *suite) unpeer(t *testing.T) {
	for c, other := range s.both() {
		unpeerOne(t, c, other)
	}
}

func unpeerOne(t *testing.T, c, other *testbed.Cluster) {
	t.Helper()
	begin := time.Now()
	require.NoError(t, c.Unpeer(bounded(t, 2*unpeerLimit), other.Name))
	took := time.Since(begin)
	t.Logf("cluster %s: unpeer took %.1f s", c.Name, took.Seconds())
	require.Less(t, took, unpeerLimit)

	ctx := bounded(t, time.Minute)
	// An agent whose API server was away asks it again with growing pauses, so
	// that unpeer may have waited for it in vain; the limit holds for it too.
	var left []string
	var err error
	assertEventually(func() bool {
		left, err = c.PeeringResidue(ctx)
		return err != nil || len(left) == 0
	}, unpeerLimit-took)
	require.NoError(t, err)
	require.Empty(t, left)
	var claims v1alpha1.PrefixClaimList
	require.NoError(t, c.List(ctx, &claims))
	require.NotEmpty(t, claims.Items, "claims are kept for a later peering")
}

// unpeerFromTheDead cuts the link, stops the other side's API server and kills
// its controller, and unpeers nevertheless; later, when its controller runs
// again, the other side does too.
func (s *suite) unpeerFromTheDead(t *testing.T) {
	ctx := bounded(t, 8*time.Minute)
	controllers, err := s.b.Processes(ctx, testbed.Controller, "")
	require.NoError(t, err)
	require.NotEmpty(t, controllers)
	require.NoError(t, s.lab.StopAPIServer(ctx, "b"))
	require.NoError(t, s.lab.Cut(ctx, "a", "b"))
	for _, p := range controllers {
		require.NoError(t, p.Kill())
	}
	unpeerOne(t, s.a, s.b)
	require.NoError(t, s.lab.StartAPIServer(ctx, "b"))
	// Before it leads again, the kubelet's back-off and that of kube-proxy, which
	// has no endpoint for the API server yet, have to pass.
	require.NoError(t, s.b.Leads(ctx, time.Now(), 3*time.Minute))
	unpeerOne(t, s.b, s.a)
	require.NoError(t, s.lab.Link(ctx, "a", "b", roundTrip))
}

// sameViews requires a re-peering to find the prefixes of the first one.
func (s *suite) sameViews(t *testing.T, before map[string]string) {
	require.Equal(t, before, s.views(t))
}

// views maps "cluster/network" to its prefix in the other cluster's view.
func (s *suite) views(t *testing.T) map[string]string {
	t.Helper()
	views := map[string]string{}
	for c, other := range s.both() {
		var fcl v1alpha1.ForeignCluster
		require.NoError(t, c.Get(bounded(t, time.Minute), client.ObjectKey{Name: other.Name}, &fcl))
		for _, n := range fcl.Status.Networks {
			views[other.Name+"/"+n.Name] = string(n.Remapped)
		}
	}
	require.NotEmpty(t, views)
	return views
}

// access takes the grant of cluster a's pods away: pods of b open no flow to
// them any more, pods of a still open flows to b and get the replies. Given
// back, everything works again.
func (s *suite) access(t *testing.T) {
	ctx := bounded(t, 3*time.Minute)
	toA, err := measure.NewPair(ctx, s.hosts["b"][0], s.hosts["a"][0])
	require.NoError(t, err)
	toB, err := measure.NewPair(ctx, s.hosts["a"][0], s.hosts["b"][0])
	require.NoError(t, err)

	setAccess(t, ctx, s.a, s.b, v1alpha1.PodAccessNone)
	require.Eventually(t, func() bool { return tryTCP(ctx, toA) != nil }, 20*time.Second, 200*time.Millisecond, "b still reaches a")
	require.NoError(t, tryTCP(ctx, toB))
	require.Error(t, tryTCP(ctx, toA))

	setAccess(t, ctx, s.a, s.b, v1alpha1.PodAccessAll)
	require.Eventually(t, func() bool { return tryTCP(ctx, toA) == nil }, 20*time.Second, 200*time.Millisecond, "b does not reach a again")
}

func setAccess(t *testing.T, ctx context.Context, c, other *testbed.Cluster, pods v1alpha1.PodAccess) {
	t.Helper()
	fcl := &v1alpha1.ForeignCluster{}
	fcl.Name = other.Name
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"access":{"pods":"`+string(pods)+`"}}}`))
	require.NoError(t, c.Patch(ctx, fcl, patch))
}

func tryTCP(ctx context.Context, pair measure.Pair) error {
	_, err := testbed.Call[echo.Result](ctx, pair.From, control.PathEchoTCP, echo.Request{
		Target: testbed.Port(pair.Target, control.EchoOffset), TimeoutMilliseconds: 1500,
	})
	return err
}
