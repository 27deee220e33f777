package peering

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
	"github.com/weft-fabric/weft/controlplane/measure"
)

func link(gateway int32, state v1alpha1.PathState, rtt int64) agent.Path {
	return agent.Path{Cluster: "b", ClusterIndex: 7, Via: "b", ViaIndex: 7, OwnGateway: gateway, RemoteGateway: 1, Measurement: agent.Measurement{State: state, RTTMicroseconds: rtt}}
}

// Connected says what the probes saw, and nothing else.
func TestConnected(t *testing.T) {
	both, early := ways{name: "b", index: 7, direct: true, ready: true}, ways{name: "b", index: 7, direct: true}
	ready, waiting := condition.Yes(ReasonReady, "fine"), condition.No(ReasonWaitingForPeer, "b has not told its networks yet")
	stranger := link(1, v1alpha1.PathUp, 1)
	stranger.Cluster = "c"
	tests := map[string]struct {
		ways     ways
		view     measure.View
		networks condition.Finding
		channel  channel.Status
		want     condition.Finding
	}{
		"up":                     {both, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathUp, 20140), link(2, v1alpha1.PathDown, 0)}}, ready, channel.Status{}, condition.Yes(ReasonLinksUp, "1 of 2 links up, RTT 20.1 ms")},
		"the channel is no life": {both, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathDown, 0)}}, ready, channel.Status{Connected: true}, condition.No(ReasonLinksDown, "0 of 1 links up: probes are not answered any more; does the underlay between the gateways work?")},
		"nor is it needed":       {both, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathUp, 500)}}, waiting, channel.Status{}, condition.Yes(ReasonLinksUp, "1 of 1 links up, RTT 0.5 ms")},
		"never answered":         {both, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathUnknown, 0)}}, ready, channel.Status{}, condition.No(ReasonProbing, "0 of 1 links up: no probe has been answered yet; is the WireGuard port (UDP 51847 by default) open between the gateways?")},
		"unreadable":             {both, measure.View{Unreadable: map[string]string{"a2": "refused", "a1": "timeout"}}, ready, channel.Status{}, condition.Unknown(ReasonUnreadable, "what gateway a1 measures cannot be read: timeout")},
		"half readable, up":      {both, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathUp, 500)}, Unreadable: map[string]string{"a2": "refused"}}, ready, channel.Status{}, condition.Yes(ReasonLinksUp, "1 of 1 links up, RTT 0.5 ms")},
		"half readable, down":    {both, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathDown, 0)}, Unreadable: map[string]string{"a2": "refused"}}, ready, channel.Status{}, condition.Unknown(ReasonUnreadable, "what gateway a2 measures cannot be read: refused")},
		"too early":              {early, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathUp, 500)}}, waiting, channel.Status{}, condition.No(ReasonNotReady, "b has not told its networks yet")},
		"another's link":         {both, measure.View{Paths: []agent.Path{stranger}}, ready, channel.Status{}, condition.No(ReasonProbing, "no gateway of this cluster probes a link to b yet")},
		"left":                   {both, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathUp, 500)}}, ready, channel.Status{Left: true}, condition.No(ReasonPeerLeft, "b has ended the peering; delete this ForeignCluster (weftctl unpeer), or peer again there")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, connectedFinding(test.ways, test.view, test.networks, test.channel))
		})
	}
}

func TestNetworks(t *testing.T) {
	own := []v1alpha1.OwnNetwork{{Name: "pods", CIDR: "10.244.0.0/16", Index: 1}}
	full := func() exchange {
		return exchange{ways: ways{name: "b", direct: true}, own: own, inPlace: true, spec: &v1alpha1.NeighborSpec{
			Networks: []v1alpha1.ViewNetwork{{Name: "pods"}},
			Rows:     []v1alpha1.Row{{Side: v1alpha1.RowOurs}, {Side: v1alpha1.RowTheirs, NetworkIndex: 1}},
		}}
	}
	tests := map[string]struct {
		change  func(*exchange)
		reason  string
		message string
	}{
		"all there":       {func(*exchange) {}, ReasonReady, "1 network from there"},
		"nothing told":    {func(x *exchange) { x.spec.Networks = nil }, ReasonWaitingForPeer, "b has not told its networks"},
		"no gateway":      {func(x *exchange) { x.spec.Rows = x.spec.Rows[1:] }, ReasonWaitingForAgents, "is a gateway"},
		"not in place":    {func(x *exchange) { x.inPlace, x.waiting = false, "gateway a1 waits" }, ReasonWaitingForAgents, "gateway a1 waits"},
		"no offers":       {func(x *exchange) { x.spec.Rows = x.spec.Rows[:1] }, ReasonWaitingForPeer, "our network pods (10.244.0.0/16)"},
		"refused":         {func(x *exchange) { x.channel.Refused = "network p: 127.0.0.0/8 ..." }, ReasonRefused, "127.0.0.0/8"},
		"refused by peer": {func(x *exchange) { x.spec.Rows, x.channel.PeerRefused = x.spec.Rows[:1], "too large" }, ReasonRefused, "b refuses what this cluster says of itself: too large"},
		"pool dry":        {func(x *exchange) { x.prefixes = errors.New("network pods gets no local view") }, ReasonPrefixes, "network pods"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := full()
			test.change(&x)
			got := networksFinding(x)
			require.Equal(t, test.reason, got.Reason)
			require.Contains(t, got.Message, test.message)
		})
	}
}

// Transitions are written at once, figures at most every 30 s.
func TestWorthWriting(t *testing.T) {
	status := func(rtt int64, state v1alpha1.PathState, message string) *v1alpha1.ForeignClusterStatus {
		s := &v1alpha1.ForeignClusterStatus{Paths: []v1alpha1.PathStatus{{Via: "b", State: state, RTTMicroseconds: rtt}}}
		condition.Yes(ReasonLinksUp, "%s", message).Set(&s.Conditions, v1alpha1.ConditionConnected, 1)
		s.Conditions[0].LastTransitionTime.Reset()
		return s
	}
	before := status(20100, v1alpha1.PathUp, "1 of 2 links up, RTT 20.1 ms")
	figures := status(23000, v1alpha1.PathUp, "1 of 2 links up, RTT 23.0 ms")
	require.False(t, worthWriting(before, before, time.Hour))
	require.False(t, worthWriting(before, figures, 29*time.Second))
	require.True(t, worthWriting(before, figures, 30*time.Second))
	require.True(t, worthWriting(before, status(20100, v1alpha1.PathDown, "1 of 2 links up, RTT 20.1 ms"), 0))
	require.True(t, worthWriting(before, status(20100, v1alpha1.PathUp, "2 of 2 links up, RTT 20.1 ms"), 0))
}
