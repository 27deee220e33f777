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
		_, nodes := targets(c.node, &plan.Plan{Names: plan.Names{Gateway: c.gateway, Nodes: fourNodes}})
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

// A link whose rows are not all there yet cannot be probed.
func TestLinkTargets(t *testing.T) {
	wire := netip.MustParseAddr("240.1.0.0")
	links, _ := targets("g1", &plan.Plan{Names: plan.Names{Gateway: 1, Nodes: fourNodes, Links: []plan.LinkName{
		{Link: 1, Lane: "weft0", ProbeSource: wire, ProbeDestination: wire}, {Link: 2, Lane: "weft0", ProbeDestination: wire},
	}}})
	require.Len(t, links, 1)
	require.Equal(t, uint16(1), links[0].Link)
}

// Probes are padded to what a packet of a pod may have on that link.
func TestLinkMTU(t *testing.T) {
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
		require.Equal(t, c.want, linkMTU(&p, plan.LinkName{Lane: "weft0", ClusterIndex: 7}), name)
	}
}

func TestPathInput(t *testing.T) {
	var reach bpfgen.BorderWeftReach
	reach.Bits[0] = 1 << 5
	up := probe.NodeResult{Target: probe.NodeTarget{Node: "g2"}, Reach: reach}
	up.State = v1alpha1.PathUp
	in := pathInput(&plan.Names{Nodes: fourNodes, Clusters: []plan.ClusterName{{Neighbor: "b", Index: 5}}}, probe.Snapshot{Nodes: []probe.NodeResult{up}}, plan.Words{})
	require.Equal(t, path.Input{Clusters: []uint8{5}, Gateways: []path.Gateway{{ID: 1}, {ID: 2, State: v1alpha1.PathUp, Reach: reach}}}, in)
}

func TestMeasurements(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	names := &plan.Names{
		Links: []plan.LinkName{
			{Link: 4, Neighbor: "b", ClusterIndex: 5, OwnGateway: 1, RemoteGateway: 9, PublicKey: [32]byte{9}},
			{Link: 6, Neighbor: "c", ClusterIndex: 6, OwnGateway: 1, RemoteGateway: 1},
		},
		Clusters: []plan.ClusterName{{Neighbor: "b", Index: 5}, {Neighbor: "c", Index: 6}},
	}
	seen := probe.LinkResult{Target: probe.LinkTarget{Link: 4}, OuterFragments: 3, LargeLost: true}
	seen.Measurement = measured.Measurement{State: v1alpha1.PathUp, RTTMicroseconds: 20000}
	peer := apply.PeerState{PublicKey: [32]byte{9}, Endpoint: netip.MustParseAddrPort("203.0.113.7:51847"), LastHandshake: now}
	words := plan.Words{Paths: map[uint32]uint32{5: 4}, Choices: map[uint32]uint64{5: path.Pack([]uint8{1}), 6: path.Pack([]uint8{2, 3})}}
	m := compose("g1", names, probe.Snapshot{Links: []probe.LinkResult{seen}}, []apply.LaneState{{Peers: []apply.PeerState{peer}}}, words, now)
	require.Equal(t, []measured.Path{
		{Cluster: "b", ClusterIndex: 5, Via: "b", ViaIndex: 5, OwnGateway: 1, RemoteGateway: 9, Measurement: seen.Measurement, LastHandshake: now, Endpoint: "203.0.113.7:51847", OuterFragments: 3, LargeLost: true, Active: true},
		{Cluster: "c", ClusterIndex: 6, Via: "c", ViaIndex: 6, OwnGateway: 1, RemoteGateway: 1, Measurement: measured.Measurement{State: v1alpha1.PathUnknown}},
	}, m.Paths)
	require.Equal(t, []measured.Cluster{
		{Cluster: "b", ClusterIndex: 5, Gateways: []int32{1}}, {Cluster: "c", ClusterIndex: 6, Gateways: []int32{2, 3}},
	}, m.Clusters)
}
