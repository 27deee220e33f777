package measure

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/agentclient"
)

// A gateway that fails for a moment keeps its last answer; for longer, it is
// unreadable, which is not the same as down. Only transitions are told.
func TestPoller(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	agents := []agentclient.Agent{{Node: "a1", GatewayID: 1}}
	answer := agent.Measurements{
		Paths: []agent.Path{{ClusterIndex: 7, ViaIndex: 7, Active: true, OwnGateway: 1, RemoteGateway: 2, Measurement: agent.Measurement{State: v1alpha1.PathUp, RTTMicroseconds: 100}}},
	}
	var failure error
	changes := 0
	p := &Poller{
		Gateways: func(context.Context) ([]agentclient.Agent, error) { return agents, nil },
		Ask:      func(context.Context, agentclient.Agent) (agent.Measurements, error) { return answer, failure },
		Changed:  func() { changes++ },
		Now:      func() time.Time { return now },
	}
	p.turn(t.Context())
	require.Equal(t, 1, changes)
	require.Equal(t, answer.Paths, p.View().Paths)
	require.True(t, p.View().Paths[0].Active)

	answer.Paths = []agent.Path{answer.Paths[0]}
	answer.Paths[0].RTTMicroseconds = 200
	p.turn(t.Context())
	require.Equal(t, 1, changes, "a figure is no transition")
	require.EqualValues(t, 200, p.View().Paths[0].RTTMicroseconds)

	failure = errors.New("refused")
	now = now.Add(5 * time.Second)
	p.turn(t.Context())
	require.Len(t, p.View().Paths, 1)
	now = now.Add(stale)
	p.turn(t.Context())
	require.Empty(t, p.View().Paths)
	require.Equal(t, map[string]string{"a1": "refused"}, p.View().Unreadable)
	require.Equal(t, 2, changes)

	failure = nil
	p.turn(t.Context())
	require.Empty(t, p.View().Unreadable)
	agents = nil
	before := changes
	p.turn(t.Context())
	require.Empty(t, p.View().Paths, "a node that is no gateway any more is forgotten")
	require.Equal(t, before+1, changes)
}
