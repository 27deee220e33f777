package agent

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/agentapi"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// The agent's API is told who may be dialed, from the plan, and whose channels
// are spliced to each other, from the Neighbors.
func TestAPIState(t *testing.T) {
	s := snapshot()
	s.Neighbors[0].Spec.Transit = []int32{9}
	s.Neighbors = append(s.Neighbors, v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{
		ClusterIndex: 9, Peers: []v1alpha1.NeighborPeer{{GatewayID: 1, ChannelAddress: "fd79::9"}},
	}})
	own, peer := netip.MustParseAddr("fd79::a"), netip.MustParseAddr("fd79::9")
	p := &plan.Plan{Lanes: []plan.Lane{{ChannelAddress: own, Peers: []plan.Peer{{ChannelAddress: peer}}}}}
	state := apiState(&s, netip.MustParseAddr("192.168.0.1"), p)
	require.Equal(t, own, state.ChannelAddress)
	require.Equal(t, []netip.Addr{peer}, state.Peers)
	require.Equal(t, map[agentapi.Pair]bool{{s.Neighbors[0].Spec.ClusterIndex, 9}: true}, state.Transit.Pairs)
	require.EqualValues(t, 9, state.Transit.Clusters[peer])
}
