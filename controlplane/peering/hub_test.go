package peering

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
	"github.com/weft-fabric/weft/controlplane/measure"
)

// viaHub is a path to b through a hub.
func viaHub(hub string, state v1alpha1.PathState, rtt int64) agent.Path {
	p := link(1, state, rtt)
	p.Via, p.ViaIndex = hub, 9
	return p
}

// Connected says over what a cluster is reached, and else what is wrong and what
// to do.
func TestConnectedThroughHub(t *testing.T) {
	behind := ways{name: "b", index: 7, hubs: []string{"c"}, open: []string{"c"}, ready: true}
	both := behind
	both.direct = true
	required := both
	required.policy = v1alpha1.PathDirectOnly
	active := func(p agent.Path) agent.Path {
		p.Active = true
		return p
	}
	up, down, unknown := v1alpha1.PathUp, v1alpha1.PathDown, v1alpha1.PathUnknown
	ready := condition.Yes(ReasonReady, "fine")
	tests := map[string]struct {
		ways    ways
		paths   []agent.Path
		channel channel.Status
		want    string
	}{
		"through the hub":      {behind, []agent.Path{viaHub("c", up, 80_000)}, channel.Status{}, "True ThroughHub: reached through c, RTT 80.0 ms"},
		"the active hub":       {behind, []agent.Path{viaHub("c", up, 70_000), active(viaHub("d", up, 80_000))}, channel.Status{}, "True ThroughHub: reached through d, RTT 80.0 ms"},
		"not probed":           {behind, nil, channel.Status{}, "False Probing: no gateway of this cluster probes a way to b through c yet"},
		"never answered":       {behind, []agent.Path{viaHub("c", unknown, 0)}, channel.Status{}, "False Probing: no probe to b through c has been answered yet: does b use the hub too (there: weftctl access HUB --use-as-hub)?"},
		"down":                 {behind, []agent.Path{viaHub("c", down, 0)}, channel.Status{}, "False LinksDown: b is not reached through c any more: does its link to this cluster work (see that ForeignCluster), and that to b?"},
		"left":                 {behind, []agent.Path{viaHub("c", up, 1)}, channel.Status{Left: true}, "False PeerLeft: b does not talk to this cluster through c any more: to change that, let it use the hub (there: weftctl access HUB --use-as-hub)"},
		"direct":               {both, []agent.Path{active(link(1, up, 20_000)), viaHub("c", up, 80_000)}, channel.Status{}, "True LinksUp: 1 of 1 links up, RTT 20.0 ms"},
		"hub is faster":        {both, []agent.Path{link(1, up, 20_000), active(viaHub("c", up, 10_000))}, channel.Status{}, "True ThroughHub: 1 of 1 links up, reached through c, RTT 10.0 ms"},
		"fallen back":          {both, []agent.Path{link(1, down, 0), active(viaHub("c", up, 80_000))}, channel.Status{}, "True ThroughHub: 0 of 1 links up, reached through c, RTT 80.0 ms"},
		"required":             {required, []agent.Path{active(link(1, up, 20_000)), viaHub("c", up, 10_000)}, channel.Status{}, "True LinksUp: 1 of 1 links up, RTT 20.0 ms"},
		"required, down":       {required, []agent.Path{link(1, down, 0), viaHub("c", up, 80_000)}, channel.Status{}, "False LinksDown: 0 of 1 links up: probes are not answered any more; does the underlay between the gateways work? c would lead there, but the mode Require of the connection forbids it"},
		"required, never seen": {required, []agent.Path{link(1, unknown, 0), viaHub("c", up, 80_000)}, channel.Status{}, "False Probing: 0 of 1 links up: no probe has been answered yet; is the WireGuard port (UDP 51847 by default) open between the gateways? c would lead there, but the mode Require of the connection forbids it"},
		"both down":            {both, []agent.Path{link(1, down, 0), viaHub("c", down, 0)}, channel.Status{}, "False LinksDown: 0 of 1 links up: probes are not answered any more; does the underlay between the gateways work?"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := connectedFinding(test.ways, measure.View{Paths: test.paths}, ready, test.channel)
			require.Equal(t, test.want, fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message))
		})
	}
}

func TestNetworksThroughHub(t *testing.T) {
	w := ways{name: "b", hubs: []string{"c"}, open: []string{"c"}, ready: true}
	full := exchange{ways: w, inPlace: true, spec: &v1alpha1.NeighborSpec{Networks: make([]v1alpha1.ViewNetwork, 2)}}
	tests := map[string]struct {
		change func(*exchange)
		want   string
	}{
		"ready":        {func(*exchange) {}, "2 networks from there, through c"},
		"no hub":       {func(x *exchange) { x.ways.hubs = nil }, "no hub leads to b any more"},
		"nothing told": {func(x *exchange) { x.spec = &v1alpha1.NeighborSpec{} }, "neither c nor b has told the networks of b yet"},
		"no rows":      {func(x *exchange) { x.ways.open = nil }, "no link to c has rows for b yet: see condition NetworksReady of that ForeignCluster"},
		"half":         {func(x *exchange) { x.ways.ready = false }, "c has not told its wire prefixes yet: see condition NetworksReady of that ForeignCluster"},
		"not in place": {func(x *exchange) { x.inPlace, x.waiting = false, "gateway a1 waits" }, "gateway a1 waits"},
		"prefixes":     {func(x *exchange) { x.prefixes = errors.New("pool dry") }, "pool dry"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := full
			test.change(&x)
			require.Equal(t, test.want, networksFinding(x).Message)
		})
	}
}

// The channel tries direct ways first, then hubs, the first few of them different
// in both ends.
func TestPairsOfGateways(t *testing.T) {
	addresses := func(n int) (out []netip.Addr) {
		for i := range n {
			out = append(out, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		}
		return out
	}
	got := pairs(addresses(2), addresses(3))
	require.Len(t, got, 6)
	require.NotEqual(t, got[0].Target, got[1].Target)
	require.NotEqual(t, got[0].Hub, got[1].Hub)
	seen := map[channel.Route]bool{}
	for _, r := range got {
		require.False(t, seen[r])
		seen[r] = true
	}
	require.Len(t, pairs(addresses(16), addresses(16)), maxHubRoutes)
	require.Empty(t, pairs(addresses(2), nil))
}

// Rows of clusters behind the neighbor never push out its own: those that do not
// fit are left out and named, always the same ones.
func TestRowsThatDoNotFit(t *testing.T) {
	in := neighborInput{Record: peerRecord(1, 2, 3, 4), Index: 1, Direct: true, Wires: map[wireKey]netip.Prefix{}, OwnGateways: []int32{1, 2, 3, 4}}
	views := func(index int32) (out []v1alpha1.ViewNetwork) {
		for i := range int32(8) {
			original := v1alpha1.CIDR(fmt.Sprintf("10.%d.%d.0/24", index, i))
			out = append(out, v1alpha1.ViewNetwork{Index: i + 1, Original: original, Local: original})
			for gateway := int32(1); gateway <= 4; gateway++ {
				key := index
				if index == in.Index {
					key = 0
				}
				in.Wires[wireKey{gateway, key, original}] = cidr(string(original))
			}
		}
		return out
	}
	in.Views = views(1)
	for index := int32(2); index <= 40; index++ {
		in.Behind = append(in.Behind, origin{Name: fmt.Sprintf("o%d", index), Index: index, Networks: views(index)})
	}
	spec, leftOut, err := buildNeighbor(in)
	require.NoError(t, err)
	require.Len(t, spec.Rows, maxRows)
	require.Len(t, rowsOf(&v1alpha1.Neighbor{Spec: spec}, v1alpha1.RowOurs, 1), 128)
	require.Equal(t, "o33", leftOut[0])
	require.Len(t, leftOut, 8)
	again, _, err := buildNeighbor(in)
	require.NoError(t, err)
	require.Equal(t, spec, again)
}

// A wire prefix that is in use stays, also while one before it finds no place.
func TestKnownWiresOutliveFailures(t *testing.T) {
	store := &claimStore{}
	record := peerRecord(1, 2)
	p := newPrefixes(store, record, nil)
	views, wires, err := p.resolve(t.Context(), []channel.Network{podNetwork})
	require.NoError(t, err)
	spec, _, err := buildNeighbor(neighborInput{Record: record, Index: 1, Direct: true, Views: views, Wires: wires, OwnGateways: []int32{1}})
	require.NoError(t, err)

	p = newPrefixes(store, record, &spec)
	p.config.Spec.WirePools = nil // no wire prefix is found any more
	p.behind = []origin{{Name: "x", Identity: "x", Index: 5, Networks: []v1alpha1.ViewNetwork{{Name: "pods", Index: 1, Original: "10.9.0.0/16", Local: "100.90.0.0/16"}}}}
	_, now, err := p.resolve(t.Context(), []channel.Network{nodeNetwork, podNetwork})
	require.ErrorContains(t, err, "network nodes (100.64.0.0/20) gets no wire prefix for gateway 2")
	for key, wire := range wires {
		require.Equal(t, wire, now[key])
	}
}

// An index is not given anew while rows or a policy still name it.
func TestIndexIsFreeOnlyWhenNothingNamesIt(t *testing.T) {
	neighbors := []v1alpha1.Neighbor{{Spec: v1alpha1.NeighborSpec{
		ClusterIndex: 1, Transit: []int32{2}, Rows: []v1alpha1.Row{{OriginIndex: 3}, {OriginIndex: 0}},
	}}}
	index, err := freeClusterIndex(neighbors)
	require.NoError(t, err)
	require.EqualValues(t, 4, index)
}

// Transit is granted for a pair, whichever of the two names the other.
func TestGranted(t *testing.T) {
	of := func(name string, neighbors ...string) *v1alpha1.ForeignCluster {
		fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		fc.Spec.Access.Transit.Neighbors = neighbors
		return fc
	}
	require.False(t, granted(of("a"), of("b")))
	require.False(t, granted(of("a", "x"), of("b", "y")))
	require.True(t, granted(of("a", "b"), of("b")))
	require.True(t, granted(of("a"), of("b", "a")))
	require.True(t, granted(of("a"), of("b", "*")))
}

// While the end of a path has not told its MTU, what was known stays a bound.
func TestMTUOfAllPaths(t *testing.T) {
	fc := foreign("b", "b", "", 0)
	fc.Spec.ReachedThrough = []string{"c"}
	hub := foreign("c", "c", "", 0)
	hub.Spec.Access.Transit.UseAsHub = true
	of := func(existing int32, said int32, reachables map[v1alpha1.Identity]channel.Reachable, asked int32) int32 {
		fc := fc
		fc.Status.Introductions = []v1alpha1.IntroductionStatus{{State: v1alpha1.IntroductionAccepted, MTU: asked}}
		s := &snapshot{
			clusters: []v1alpha1.ForeignCluster{fc, hub}, told: map[string]told{"c": {reachables: reachables}},
			neighbors: []v1alpha1.Neighbor{{ObjectMeta: fc.ObjectMeta, Spec: v1alpha1.NeighborSpec{Identity: "b", MTU: existing}}},
		}
		return s.mtuOf(&fc, said)
	}
	told := func(mtu int32) map[v1alpha1.Identity]channel.Reachable {
		return map[v1alpha1.Identity]channel.Reachable{"b": {MTU: mtu}}
	}
	require.EqualValues(t, 0, of(0, 0, nil, 0))
	require.EqualValues(t, 1380, of(1380, 0, nil, 0), "nothing told since we started")
	require.EqualValues(t, 1380, of(1380, 1440, nil, 0), "the hub has not told")
	require.EqualValues(t, 1380, of(1380, 0, told(1400), 0), "b has not told")
	require.EqualValues(t, 1400, of(1380, 1440, told(1400), 0), "all have")
	require.EqualValues(t, 1300, of(1380, 1440, told(1400), 1300), "an introducer asks for less")
}
