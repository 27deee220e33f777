package measure

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/agentclient"
)

// A count that rises between two readings is told at once, and no more once it
// has stood still for a while. Where a count begins says nothing, whichever end
// has restarted.
func TestFragmentsRise(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	agents := []agentclient.Agent{{Node: "a1", GatewayID: 1}}
	reading := agent.Path{ClusterIndex: 7, ViaIndex: 7, OwnGateway: 1, RemoteGateway: 2, OuterFragments: 500, Measurement: agent.Measurement{State: v1alpha1.PathUp}}
	quiet := agent.Path{ClusterIndex: 7, ViaIndex: 7, OwnGateway: 1, RemoteGateway: 3, OuterFragments: 500, Measurement: agent.Measurement{State: v1alpha1.PathUp}}
	told := 0
	p := &Poller{
		Gateways: func(context.Context) ([]agentclient.Agent, error) { return agents, nil },
		Ask: func(context.Context, agentclient.Agent) (agent.Measurements, error) {
			return agent.Measurements{Paths: []agent.Path{reading, quiet}}, nil
		},
		Changed: func() { told++ },
		Now:     func() time.Time { return now },
	}
	rising := func(count uint32, state v1alpha1.PathState, later time.Duration) bool {
		now = now.Add(later)
		reading.OuterFragments, reading.State = count, state
		p.turn(t.Context())
		require.NotContains(t, p.View().Fragmenting, Path{1, 7, 7, 3})
		return p.View().Fragmenting[Path{1, 7, 7, 2}]
	}
	const up, unknown = v1alpha1.PathUp, v1alpha1.PathUnknown
	require.False(t, rising(500, up, 0), "the controller has just started")
	require.False(t, rising(500, up, Interval))
	before := told
	require.True(t, rising(501, up, Interval))
	require.Equal(t, before+1, told)
	require.True(t, rising(501, up, risingFor-time.Second))
	require.False(t, rising(501, up, time.Second), "it stands still")
	require.Equal(t, before+2, told)

	require.False(t, rising(0, unknown, Interval), "our agent restarts and has no answer yet")
	require.False(t, rising(501, up, Interval))
	require.False(t, rising(3, up, Interval), "the far gateway has rebooted")
	require.True(t, rising(4, up, Interval))
	require.True(t, rising(0, unknown, Interval), "a restart hides nothing")
	require.True(t, rising(4, up, Interval))

	agents = nil
	p.turn(t.Context())
	require.Empty(t, p.View().Fragmenting, "a node that is no gateway any more has no links")
}

// That full-size probes get lost is a transition, as the state of a link is.
func TestLargeLostIsTold(t *testing.T) {
	told := 0
	reading := agent.Path{ClusterIndex: 7, ViaIndex: 7, OwnGateway: 1, RemoteGateway: 2, Measurement: agent.Measurement{State: v1alpha1.PathUp}}
	p := &Poller{
		Gateways: func(context.Context) ([]agentclient.Agent, error) { return []agentclient.Agent{{Node: "a1"}}, nil },
		Ask: func(context.Context, agentclient.Agent) (agent.Measurements, error) {
			return agent.Measurements{Paths: []agent.Path{reading}}, nil
		},
		Changed: func() { told++ },
		Now:     time.Now,
	}
	p.turn(t.Context())
	p.turn(t.Context())
	require.Equal(t, 1, told)
	reading.LargeLost = true
	p.turn(t.Context())
	require.Equal(t, 2, told)
}
