package agent

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	measured "github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
)

func placeKey(a netip.Addr) bpfgen.BorderWeftPrefix4 {
	return bpfgen.BorderWeftPrefix4{Prefix: bpfgen.Address4(a), PrefixLen: 32}
}

func acceptKey(link uint16, cluster uint8) bpfgen.BorderWeftAcceptKey {
	return bpfgen.BorderWeftAcceptKey{Link: link, Cluster: cluster}
}

func nodeName(name string, gateway int32, address string) plan.NodeName {
	return plan.NodeName{Name: name, GatewayID: gateway, FabricAddress: netip.MustParseAddr(address)}
}

// Gateways g1 and g2, plain nodes p3 and p4.
var fourNodes = []plan.NodeName{
	nodeName("g1", 1, "100.64.0.1"), nodeName("g2", 2, "100.64.0.2"), nodeName("p3", 0, "100.64.0.3"), nodeName("p4", 0, "100.64.0.4"),
}

func TestNodeTargets(t *testing.T) {
	for _, c := range []struct {
		node    string
		gateway int32
		fast    []string
		slow    []string
	}{
		{"g1", 1, []string{"g2"}, []string{"p3", "p4"}},
		{"p3", 0, []string{"g1", "g2"}, nil},
	} {
		nodes := targetsOf(c.node, &plan.Plan{Names: plan.Names{Gateway: c.gateway, Nodes: fourNodes}}).nodes
		var fast, slow []string
		for _, n := range nodes {
			require.Equal(t, plan.OverlayDevice, n.Device)
			if n.Slow {
				slow = append(slow, n.Node)
			} else {
				fast = append(fast, n.Node)
			}
		}
		require.Equal(t, c.fast, fast, c.node)
		require.Equal(t, c.slow, slow, c.node)
	}
}

// Link 1 leads to cluster 5, links 2 and 3 to hubs 6 and 7 that lead on to it;
// link 4 has not all its rows yet and cannot be probed.
func fourLinks() plan.Names {
	wire := netip.MustParseAddr("240.1.0.0")
	name := func(link uint16, cluster, via int32) plan.PathName {
		return plan.PathName{
			Link: link, Lane: "weft0", Cluster: "b", ClusterIndex: cluster, Via: "x", ViaIndex: via, OwnGateway: 1, RemoteGateway: 1,
			ProbeSource: wire, ProbeDestination: wire, Permitted: true,
		}
	}
	names := plan.Names{Gateway: 1, Nodes: fourNodes, Clusters: []plan.ClusterName{{Neighbor: "b", Index: 5}}}
	names.Paths = []plan.PathName{name(1, 5, 5), name(2, 5, 6), name(3, 5, 7), name(4, 8, 8)}
	names.Paths[3].ProbeSource, names.Paths[3].ProbeDestination = netip.Addr{}, netip.Addr{}
	return names
}

func TestPathTargets(t *testing.T) {
	base := targetsOf("g1", &plan.Plan{Names: fourLinks()})
	require.Len(t, base.paths, 3)
	slow := func(choice path.Choice) []uint16 {
		var out []uint16
		for _, p := range base.withPace(choice).paths {
			if p.Slow {
				out = append(out, p.Link)
			}
		}
		return out
	}
	using := func(link uint32, alternate uint16) path.Choice {
		return path.Choice{Words: plan.Words{Paths: map[uint32]uint32{5: link}}, Alternates: map[uint8]uint16{5: alternate}}
	}
	require.Equal(t, []uint16{2, 3}, slow(path.Choice{}), "a direct path is never slow")
	require.Equal(t, []uint16{3}, slow(using(1, 2)))
	require.Equal(t, []uint16{2}, slow(using(1, 3)))
	require.Empty(t, slow(using(2, 3)))
	require.Equal(t, []uint16{2, 3}, slow(path.Choice{}), "the base is as before")
}

func TestPathsOfChoice(t *testing.T) {
	now := time.Now()
	names := fourLinks()
	names.Paths[1].Permitted = false
	seen := result(5, 1, v1alpha1.PathUp, 20)
	in := pathInput(&names, probe.Snapshot{Paths: []probe.PathResult{seen, result(6, 1, v1alpha1.PathDown, 0)}}, path.Choice{}, now)
	require.Equal(t, now, in.Now)
	require.Equal(t, []path.Path{
		{Cluster: 5, Link: 1, Direct: true, Permitted: true, Probed: true, State: v1alpha1.PathUp, Since: seen.Since, RTT: 20 * time.Millisecond},
		{Cluster: 5, Link: 2, Probed: true}, {Cluster: 5, Link: 3, Permitted: true, Probed: true}, {Cluster: 8, Link: 4, Direct: true, Permitted: true},
	}, in.Paths)
}

// Probes are padded to what a packet of a pod may have on that path.
func TestPathMTU(t *testing.T) {
	lanes := []plan.Lane{{Device: "weft1", MTU: 1280}, {Device: "weft0", MTU: 1440}}
	for name, c := range map[string]struct {
		lanes   []plan.Lane
		cluster uint32
		want    int
	}{
		"the neighbor carries less": {lanes, 1328, 1328},
		"its underlay is larger":    {lanes, 8880, 1440},
		"nothing planned for it":    {lanes, 0, 1440},
		"no lane":                   {nil, 1328, 1328},
		"neither":                   {nil, 0, 0},
	} {
		p := plan.Plan{Lanes: c.lanes, Maps: plan.Maps{Clusters: map[uint32]bpfgen.BorderWeftCluster{7: {Mtu: c.cluster}, 8: {Mtu: 576}}}}
		require.Equal(t, c.want, pathMTU(&p, &plan.PathName{Lane: "weft0", ClusterIndex: 7}), name)
	}
}

func TestPathInput(t *testing.T) {
	var reach bpfgen.BorderWeftReach
	reach.Bits[0] = 1 << 5
	up := probe.NodeResult{Target: probe.NodeTarget{Node: "g2"}, Reach: reach}
	up.State = v1alpha1.PathUp
	in := pathInput(&plan.Names{Nodes: fourNodes, Clusters: []plan.ClusterName{{Neighbor: "b", Index: 5}}}, probe.Snapshot{Nodes: []probe.NodeResult{up}}, path.Choice{}, time.Time{})
	require.Equal(t, path.Input{Clusters: []uint8{5}, Gateways: []path.Gateway{{ID: 1}, {ID: 2, State: v1alpha1.PathUp, Reach: reach}}}, in)
}

func TestMeasurements(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	names := &plan.Names{
		Links: []plan.LinkName{
			{Link: 4, Neighbor: "b", ClusterIndex: 5, OwnGateway: 1, RemoteGateway: 9, PublicKey: [32]byte{9}},
			{Link: 6, Neighbor: "c", ClusterIndex: 6, OwnGateway: 1, RemoteGateway: 1, PublicKey: [32]byte{6}},
		},
		Paths: []plan.PathName{
			{Link: 4, Cluster: "b", ClusterIndex: 5, Via: "b", ViaIndex: 5, OwnGateway: 1, RemoteGateway: 9},
			{Link: 6, Cluster: "b", ClusterIndex: 5, Via: "c", ViaIndex: 6, OwnGateway: 1, RemoteGateway: 1},
			{Link: 6, Cluster: "c", ClusterIndex: 6, Via: "c", ViaIndex: 6, OwnGateway: 1, RemoteGateway: 1},
		},
		Clusters: []plan.ClusterName{{Neighbor: "b", Index: 5}, {Neighbor: "c", Index: 6}},
	}
	seen, overHub := result(5, 4, v1alpha1.PathUp, 20), result(5, 6, v1alpha1.PathUp, 80)
	seen.OuterFragments, seen.LargeLost = 3, true
	peers := []apply.PeerState{
		{PublicKey: [32]byte{9}, Endpoint: netip.MustParseAddrPort("203.0.113.7:51847"), LastHandshake: now},
		{PublicKey: [32]byte{6}, Endpoint: netip.MustParseAddrPort("203.0.113.8:51847"), LastHandshake: now},
	}
	choice := path.Choice{
		Words:   plan.Words{Paths: map[uint32]uint32{5: 4}, Choices: map[uint32]uint64{5: path.Pack([]uint8{1}), 6: path.Pack([]uint8{2, 3})}},
		Reasons: map[path.Key]v1alpha1.PathReason{{Cluster: 5, Link: 4}: v1alpha1.PathReasonDirect, {Cluster: 5, Link: 6}: v1alpha1.PathReasonSlower},
	}
	m := compose("g1", names, probe.Snapshot{Paths: []probe.PathResult{seen, overHub}}, []apply.LaneState{{Peers: peers}}, choice, now)
	require.Equal(t, []measured.Path{
		{Cluster: "b", ClusterIndex: 5, Via: "b", ViaIndex: 5, OwnGateway: 1, RemoteGateway: 9, Measurement: seen.Measurement, LastHandshake: now, Endpoint: "203.0.113.7:51847", OuterFragments: 3, LargeLost: true, Active: true, Reason: v1alpha1.PathReasonDirect},
		{Cluster: "b", ClusterIndex: 5, Via: "c", ViaIndex: 6, OwnGateway: 1, RemoteGateway: 1, Measurement: overHub.Measurement, LastHandshake: now, Endpoint: "203.0.113.8:51847", Reason: v1alpha1.PathReasonSlower},
		{Cluster: "c", ClusterIndex: 6, Via: "c", ViaIndex: 6, OwnGateway: 1, RemoteGateway: 1, Measurement: measured.Measurement{State: v1alpha1.PathUnknown}, LastHandshake: now, Endpoint: "203.0.113.8:51847"},
	}, m.Paths)
	require.Equal(t, []measured.Cluster{
		{Cluster: "b", ClusterIndex: 5, Gateways: []int32{1}}, {Cluster: "c", ClusterIndex: 6, Gateways: []int32{2, 3}},
	}, m.Clusters)
}
