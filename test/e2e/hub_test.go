package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

const (
	// connection is the name of the ForeignClusterConnection.
	connection = "a-b"
	// failoverLimit of the numbered packets' silence over a silent cut.
	failoverLimit = time.Second
	// deleteLimit is promised, whatever is unreachable.
	deleteLimit = 30 * time.Second
	// moveLimit bounds a change of path, of policy or of phase.
	moveLimit = 45 * time.Second
	// rest lets packets flow before and after whatever happens to them.
	rest = time.Second
)

// A consumer c and two providers, a and b, all with the same CIDRs. The providers
// are peered with c alone: they reach each other through it, then directly,
// introduced by it. Last, the others use a service of b. The steps share one lab
// and build on each other.
func TestHubAndDirectLink(t *testing.T) {
	s := start(t, testbed.LabOptions{Clusters: 3}, nil)

	step(t, "peer with the consumer", s.peerWithConsumer)
	step(t, "every pair", s.matrix)
	step(t, "introduction denied", s.denied)
	step(t, "introduction asked for", s.asked)
	step(t, "provider unreachable", s.providerUnreachable)
	step(t, "reversed twin", s.reversedTwin)
	step(t, "cut and healed", s.cutAndHealed)
	step(t, "consumer off", s.consumerOff)
	step(t, "payload required to be direct", s.required)
	step(t, "required from the start", s.requiredFromTheStart)
	step(t, "deleted while unreachable", s.deletedWhileUnreachable)

	v := s.shareService(t)
	step(t, "service exported", v.exported)
	step(t, "service called", v.called)
	step(t, "service scaled", v.scaled)
	step(t, "wrong exports", v.wrongExports)
	step(t, "service stays", v.stays)
	step(t, "names stay", v.hung)
	step(t, "exporter cut off", v.exporterCutOff)
	step(t, "service not exported any more", v.unexported)
}

// peerWithConsumer peers c with a and b; nobody peers a with b.
func (s *suite) peerWithConsumer(t *testing.T) {
	group, ctx := errgroup.WithContext(bounded(t, 3*time.Minute))
	for _, provider := range []*testbed.Cluster{s.a, s.b} {
		group.Go(func() error { return testbed.Peer(ctx, s.c, provider, testbed.HubGrants()...) })
	}
	require.NoError(t, group.Wait())
	s.via(t, "c")
	for c, other := range s.both() {
		var fcl v1alpha1.ForeignCluster
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: other.Name}, &fcl))
		require.Equal(t, []string{"c"}, fcl.Spec.ReachedThrough)
		require.Empty(t, fcl.Spec.IntroducedBy)
	}
}

// via waits until a and b send to each other through hub, or directly if hub is
// empty.
func (s *suite) via(t *testing.T, hub string) {
	t.Helper()
	group, ctx := errgroup.WithContext(bounded(t, 2*moveLimit))
	for c, other := range s.both() {
		via := hub
		if hub == "" {
			via = other.Name
		}
		group.Go(func() error { return c.WaitVia(ctx, other.Name, via, moveLimit) })
	}
	require.NoError(t, group.Wait())
}

// connect applies the connection.
func (s *suite) connect(t *testing.T, mode v1alpha1.ConnectionMode) {
	t.Helper()
	require.NoError(t, s.c.Apply(bounded(t, time.Minute), testbed.Connection(connection, "a", "b", mode)))
}

// phase waits for a phase and its reason, which a sentence must explain.
func (s *suite) phase(t *testing.T, name string, phase v1alpha1.ConnectionPhase, reason string) {
	t.Helper()
	begin := time.Now()
	fcc, err := s.c.WaitPhase(bounded(t, 3*moveLimit), name, phase, reason, 2*moveLimit)
	require.NoError(t, err)
	t.Logf("%s after %.1f s: %s", name, time.Since(begin).Seconds(), testbed.DescribeConnection(fcc))
	require.NotEmpty(t, testbed.ConnectionReason(fcc).Message, "what to do")
}

// disconnect deletes a connection within its limit.
func (s *suite) disconnect(t *testing.T, name string) {
	t.Helper()
	begin := time.Now()
	require.NoError(t, s.c.Disconnect(bounded(t, time.Minute), name, deleteLimit))
	t.Logf("%s: deleted after %.1f s", name, time.Since(begin).Seconds())
}

// introductions sets what cluster a says to those that c makes.
func (s *suite) introductions(t *testing.T, policy v1alpha1.IntroductionPolicy) {
	t.Helper()
	patchForeign(t, s.a, "c", `{"spec":{"access":{"introductions":"`+string(policy)+`"}}}`)
}

func patchForeign(t *testing.T, c *testbed.Cluster, foreign, patch string) {
	t.Helper()
	fcl := &v1alpha1.ForeignCluster{}
	fcl.Name = foreign
	require.NoError(t, c.Patch(bounded(t, time.Minute), fcl, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// denied: a does not let c introduce anybody.
func (s *suite) denied(t *testing.T) {
	s.introductions(t, v1alpha1.IntroductionDeny)
	s.connect(t, v1alpha1.ModePrefer)
	s.phase(t, connection, v1alpha1.PhaseDenied, v1alpha1.ReasonDenied)
	s.disconnect(t, connection)
	s.via(t, "c")
}

// asked: an admin of a has to agree first, and does.
func (s *suite) asked(t *testing.T) {
	s.introductions(t, v1alpha1.IntroductionAsk)
	s.connect(t, v1alpha1.ModePrefer)
	s.phase(t, connection, v1alpha1.PhaseIntroduced, v1alpha1.ReasonAwaitingApproval)
	patchForeign(t, s.a, "b", `{"spec":{"accepted":true}}`)
	s.phase(t, connection, v1alpha1.PhaseConnected, "")
	s.via(t, "")
	s.disconnect(t, connection)
	s.via(t, "c")
	s.introductions(t, v1alpha1.IntroductionAllow)
}

// unreachable is how long a cannot be reached: in a full run, longer than every
// retry.
func unreachable() time.Duration {
	if full() {
		return time.Minute
	}
	return 5 * time.Second
}

// providerUnreachable: the connection is created while c cannot reach a.
func (s *suite) providerUnreachable(t *testing.T) {
	ctx := bounded(t, 6*time.Minute)
	require.NoError(t, s.lab.Cut(ctx, "a", "c"))
	s.connect(t, v1alpha1.ModePrefer)
	s.phase(t, connection, v1alpha1.PhasePending, v1alpha1.ReasonProviderUnreachable)
	wait(t, ctx, unreachable())
	s.phase(t, connection, v1alpha1.PhasePending, v1alpha1.ReasonProviderUnreachable)
	require.NoError(t, s.lab.Heal(ctx, "a", "c"))
	s.phase(t, connection, v1alpha1.PhaseConnected, "")
	s.via(t, "")
}

// reversedTwin: (b, a) is the connection (a, b) once more, and harms it neither
// by coming nor by going.
func (s *suite) reversedTwin(t *testing.T) {
	require.NoError(t, s.c.Apply(bounded(t, time.Minute), testbed.Connection("b-a", "b", "a", v1alpha1.ModeRequire)))
	_, err := s.c.WaitPhase(bounded(t, 2*moveLimit), "b-a", "", v1alpha1.ReasonDuplicateConnection, moveLimit)
	require.NoError(t, err)
	s.policy(t, v1alpha1.PathAny)
	s.disconnect(t, "b-a")
	s.phase(t, connection, v1alpha1.PhaseConnected, "")
	s.via(t, "")
}

// policy waits until both providers have told their agents which paths traffic
// may take.
func (s *suite) policy(t *testing.T, want v1alpha1.PathPolicy) {
	t.Helper()
	ctx := bounded(t, 2*moveLimit)
	for c, other := range s.both() {
		require.NoError(t, c.WaitPolicy(ctx, other.Name, want, moveLimit))
	}
}

// travel starts traffic both ways between pods of a and b on plain nodes.
func (s *suite) travel(t *testing.T, ctx context.Context) *measure.Journey {
	t.Helper()
	var pairs []measure.Pair
	for _, pair := range s.flowPairs(t, ctx) {
		if !pair.From.Gateway {
			pairs = append(pairs, pair)
		}
	}
	journey, err := measure.StartJourney(ctx, pairs)
	require.NoError(t, err)
	return journey
}

// stage ends a stage of a journey; none of its packets may be lost if whole.
func stage(t *testing.T, ctx context.Context, journey *measure.Journey, what string, whole bool) measure.Stage {
	t.Helper()
	wait(t, ctx, rest)
	reports, err := journey.Stage(ctx)
	require.NoError(t, err)
	judge(t, reports, what, whole)
	return reports
}

func judge(t *testing.T, reports measure.Stage, what string, whole bool) {
	t.Helper()
	t.Logf("%s\n%s", what, measure.Describe(reports))
	require.NoError(t, reports.Check())
	if whole {
		require.Zero(t, reports.Lost(), what)
	}
}

// arrive ends a journey: no connection was reset, and every byte of all came.
func arrive(t *testing.T, ctx context.Context, journey *measure.Journey, what string, whole bool) {
	t.Helper()
	wait(t, ctx, rest)
	reports, connections, err := journey.End(ctx)
	require.NoError(t, err)
	judge(t, reports, what, whole)
	require.Zero(t, connections.Resets())
	require.NoError(t, connections.Check())
	t.Logf("TCP: %d bytes came back, longest silence %s", connections.Verified(), connections.Silence())
}

// cutAndHealed: traffic falls back to the hub and returns, and c forwards what
// it must and no more.
func (s *suite) cutAndHealed(t *testing.T) {
	ctx := bounded(t, 6*time.Minute)
	journey := s.travel(t, ctx)
	before := s.transit(t, ctx)
	stage(t, ctx, journey, "direct", true)
	require.Equal(t, before, s.transit(t, ctx), "c forwards what goes directly")

	require.NoError(t, s.lab.Cut(ctx, "a", "b"))
	s.via(t, "c")
	fallen := stage(t, ctx, journey, "fallen back", false)
	require.Positive(t, fallen.Silence())
	require.LessOrEqual(t, fallen.Silence(), failoverLimit)
	s.phase(t, connection, v1alpha1.PhaseDegraded, v1alpha1.ReasonDirectDown)
	stage(t, ctx, journey, "through the hub", true)
	require.Greater(t, s.transit(t, ctx).Total(), before.Total())

	require.NoError(t, s.lab.Heal(ctx, "a", "b"))
	s.via(t, "")
	s.phase(t, connection, v1alpha1.PhaseConnected, "")
	arrive(t, ctx, journey, "returned", true)
}

func (s *suite) transit(t *testing.T, ctx context.Context) testbed.Transit {
	t.Helper()
	transit, err := s.c.Transit(ctx)
	require.NoError(t, err)
	return transit
}

// consumerOff: once a and b are joined they need c no more, whose links all go
// silent (in a full run its API server stops too), also not while the agent on
// b's gateway is restarted.
func (s *suite) consumerOff(t *testing.T) {
	ctx := bounded(t, 6*time.Minute)
	journey := s.travel(t, ctx)
	if full() {
		require.NoError(t, s.lab.StopAPIServer(ctx, "c"))
	}
	for _, provider := range []string{"a", "b"} {
		require.NoError(t, s.lab.Cut(ctx, provider, "c"))
	}
	wait(t, ctx, unreachable())
	stage(t, ctx, journey, "consumer off", true)

	agents, err := s.b.Processes(ctx, testbed.Agent, s.hosts["b"][0].Node)
	require.NoError(t, err)
	require.Len(t, agents, 1)
	fresh, err := s.b.Replace(ctx, testbed.Agent, agents[0], time.Minute)
	require.NoError(t, err)
	t.Logf("%s killed %s, now %s", clock(time.Now()), agents[0], fresh)
	wait(t, ctx, unreachable())
	s.via(t, "")
	arrive(t, ctx, journey, "agent restarted", true)

	for _, provider := range []string{"a", "b"} {
		require.NoError(t, s.lab.Heal(ctx, provider, "c"))
	}
	if full() {
		require.NoError(t, s.lab.StartAPIServer(ctx, "c"))
		require.NoError(t, s.c.Leads(ctx, time.Now(), 3*time.Minute))
	}
	s.phase(t, connection, v1alpha1.PhaseConnected, "")
}

// required: with Require no payload crosses c in either direction, also while
// the direct link is cut. The changed mode takes effect on both, and so does
// the change back.
func (s *suite) required(t *testing.T) {
	ctx := bounded(t, 6*time.Minute)
	s.connect(t, v1alpha1.ModeRequire)
	s.policy(t, v1alpha1.PathDirectOnly)
	s.via(t, "")
	journey := s.travel(t, ctx)
	before := s.transit(t, ctx)
	stage(t, ctx, journey, "required", true)

	require.NoError(t, s.lab.Cut(ctx, "a", "b"))
	s.phase(t, connection, v1alpha1.PhaseDegraded, v1alpha1.ReasonDirectDown)
	wait(t, ctx, rest)
	s.noneReaches(t, ctx)
	require.Equal(t, before, s.transit(t, ctx), "payload crossed c")

	require.NoError(t, s.lab.Heal(ctx, "a", "b"))
	s.phase(t, connection, v1alpha1.PhaseConnected, "")
	s.via(t, "")
	require.Positive(t, stage(t, ctx, journey, "cut", false).Lost())
	arrive(t, ctx, journey, "healed", true)
	require.Equal(t, before, s.transit(t, ctx), "payload crossed c")

	s.connect(t, v1alpha1.ModePrefer)
	s.policy(t, v1alpha1.PathAny)
}

// requiredFromTheStart: no payload crosses c from acceptance on, though the
// direct link has not come up yet.
func (s *suite) requiredFromTheStart(t *testing.T) {
	ctx := bounded(t, 6*time.Minute)
	s.disconnect(t, connection)
	s.via(t, "c")
	require.NoError(t, s.lab.Cut(ctx, "a", "b"))
	s.connect(t, v1alpha1.ModeRequire)
	s.policy(t, v1alpha1.PathDirectOnly)
	s.phase(t, connection, v1alpha1.PhaseConnecting, v1alpha1.ReasonConnecting)
	before := s.transit(t, ctx)
	s.noneReaches(t, ctx)
	require.Equal(t, before, s.transit(t, ctx), "payload crossed c")
	require.NoError(t, s.lab.Heal(ctx, "a", "b"))
	s.phase(t, connection, v1alpha1.PhaseConnected, "")
	s.eachPair(t, ctx, func(pair measure.Pair) error { return tryTCP(ctx, pair) })
	require.Equal(t, before, s.transit(t, ctx), "payload crossed c")
}

// noneReaches requires that pods of a and b reach each other in no direction.
func (s *suite) noneReaches(t *testing.T, ctx context.Context) {
	t.Helper()
	s.eachPair(t, ctx, func(pair measure.Pair) error {
		if tryTCP(ctx, pair) == nil {
			return fmt.Errorf("%s reaches %s", pair.From, pair.To)
		}
		return nil
	})
}

// deletedWhileUnreachable: the deletion ends within its limit though a hears
// nothing of it; once it does, both are back on the hub.
func (s *suite) deletedWhileUnreachable(t *testing.T) {
	ctx := bounded(t, 6*time.Minute)
	require.NoError(t, s.lab.Cut(ctx, "a", "c"))
	s.disconnect(t, connection)
	require.NoError(t, s.lab.Heal(ctx, "a", "c"))
	s.via(t, "c")
	for c, other := range s.both() {
		require.NoError(t, c.WaitNotIntroduced(ctx, other.Name, moveLimit))
	}
	s.eachPair(t, ctx, func(pair measure.Pair) error { return tryTCP(ctx, pair) })
}

// eachPair runs try on pairs of a and b, all at once.
func (s *suite) eachPair(t *testing.T, ctx context.Context, try func(measure.Pair) error) {
	t.Helper()
	var group errgroup.Group
	for _, pair := range s.flowPairs(t, ctx) {
		group.Go(func() error { return try(pair) })
	}
	require.NoError(t, group.Wait())
}
