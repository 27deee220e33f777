package plan

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

func TestGatewayDevices(t *testing.T) {
	p := built(t, fixture())
	require.Equal(t, &Overlay{
		Device: "weft-vx", Port: 4797, VNI: 77, MAC: MAC("a1"), MTU: 1450, FabricAddress: addr("100.64.0.1"),
	}, p.Overlay)
	channelB := identity.ChannelAddress(identityB, 1)
	require.Equal(t, []Lane{{
		Device: "weft0", Port: 51847, MTU: 1440, ChannelAddress: identity.ChannelAddress(identityA, 1),
		Peers: []Peer{{
			PublicKey: key(0xb1), Endpoints: []string{"203.0.113.7:51847", "b.example:51847"}, Keepalive: 25 * time.Second,
			AllowedIPs:     []netip.Prefix{prefix("100.71.0.0/20"), prefix("240.1.0.0/16"), netip.PrefixFrom(channelB, 128)},
			ChannelAddress: channelB,
		}},
	}}, p.Lanes)
	require.Equal(t, Routing{Table: 7077, RulePriority: 105, Routes: []Route{
		{Destination: prefix("100.70.0.0/16"), Source: addr("100.64.0.1"), MTU: 1440},
		{Destination: prefix("100.71.0.0/20"), Source: addr("100.64.0.1"), MTU: 1440},
	}}, p.Routing)
	require.Equal(t, []v1alpha1.AppliedNeighbor{{Name: "b", UID: "uid-b", Generation: 3}}, p.Names.Neighbors)
}

func TestGatewayMaps(t *testing.T) {
	m := built(t, fixture()).Maps
	const valid, longer, node = bpfgen.NetValid, bpfgen.NetLonger, bpfgen.NetValid | bpfgen.NetNode
	require.Equal(t, map[uint32]bpfgen.BorderWeftNet{
		10<<8 | 244: {Flags: valid, PrefixLen: 16, Network: 1},
		100<<8 | 64: {Flags: longer},
		100<<8 | 70: {Flags: valid, PrefixLen: 16, Cluster: 5, Network: 1},
		100<<8 | 71: {Flags: longer},
	}, m.View4)
	require.Equal(t, map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftNet{
		{Prefix: be("100.64.0.0"), PrefixLen: 20}: {Flags: node, PrefixLen: 20, Network: 2},
		{Prefix: be("100.71.0.0"), PrefixLen: 20}: {Flags: node, PrefixLen: 20, Cluster: 5, Network: 2},
	}, m.View4Long)
	require.Equal(t, map[uint32]bpfgen.BorderWeftWire{
		240<<8 | 1:  {Link: 1, Flags: valid, PrefixLen: 16, Cluster: 5, Network: 1},
		100<<8 | 71: {Flags: longer},
	}, m.Wire4)
	require.Equal(t, map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftWire{
		{Prefix: be("100.71.0.0"), PrefixLen: 20}: {Link: 1, Flags: node, PrefixLen: 20, Cluster: 5, Network: 2},
	}, m.Wire4Long)
	require.Equal(t, map[bpfgen.BorderWeftTheirsKey]bpfgen.BorderWeftNet{
		{Prefix: be("240.9.0.0"), Link: 1, PrefixLen: 16}:   {Flags: valid, PrefixLen: 16, Network: 1},
		{Prefix: be("100.81.16.0"), Link: 1, PrefixLen: 20}: {Flags: node, PrefixLen: 20, Network: 2},
	}, m.Theirs4)
	require.Equal(t, map[uint32]Link{1: {Lane: "weft0", Value: bpfgen.BorderWeftLink{
		Flags: bpfgen.LinkValid, Cluster: 5, OwnGateway: 1, RemoteGateway: 1, TheirsLengths: 1<<15 | 1<<19,
	}}}, m.Links)
	require.Equal(t, map[bpfgen.BorderWeftAcceptKey]uint32{{Link: 1, Cluster: 5}: 1}, m.Accept)
	require.Equal(t, map[uint32]bpfgen.BorderWeftCluster{5: {Mtu: 1440}}, m.Clusters)
	require.Equal(t, bpfgen.BorderWeftLengths{View4: 1 << 19, Wire4: 1 << 19, Places4: 1<<31 | 1<<23}, m.Lengths)
	require.Empty(t, m.Transit)
}

func TestRowsOfBothSides(t *testing.T) {
	rows := built(t, fixture()).Maps.Rows4
	require.Len(t, rows, 4)
	ours := rows[bpfgen.BorderWeftRowKey{Link: 1, Side: bpfgen.SideOurs, Cluster: 5, Network: 1}]
	require.Equal(t, bpfgen.BorderWeftRow4{
		Local: be("100.70.0.0"), Wire: be("240.1.0.0"), Mask: be("255.255.0.0"),
		Delta: bpfgen.Delta(prefix("100.70.0.0/16"), prefix("240.1.0.0/16")),
	}, ours)
	theirs := rows[bpfgen.BorderWeftRowKey{Link: 1, Side: bpfgen.SideTheirs, Network: 2}]
	require.Equal(t, bpfgen.BorderWeftRow4{
		Local: be("100.64.0.0"), Wire: be("100.81.16.0"), Mask: be("255.255.240.0"),
		Delta: bpfgen.Delta(prefix("100.64.0.0/20"), prefix("100.81.16.0/20")),
	}, theirs)
}

func TestPlaces(t *testing.T) {
	m := built(t, fixture()).Maps
	require.Equal(t, map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftPlace4{
		{Prefix: be("100.64.0.1"), PrefixLen: 32}: {Underlay: be("192.168.0.1"), Flags: bpfgen.PlaceLocal | bpfgen.PlaceFabric},
		{Prefix: be("10.244.1.5"), PrefixLen: 32}: {Underlay: be("192.168.0.1"), Flags: bpfgen.PlaceLocal},
		{Prefix: be("10.244.1.6"), PrefixLen: 32}: {Underlay: be("192.168.0.1"), Flags: bpfgen.PlaceLocal},
		{Prefix: be("100.64.0.2"), PrefixLen: 32}: {Underlay: be("192.168.0.2"), Flags: bpfgen.PlaceFabric},
		{Prefix: be("10.244.2.0"), PrefixLen: 24}: {Underlay: be("192.168.0.2")},
	}, m.Places4)
	require.Equal(t, map[uint32]uint32{be("192.168.0.1"): bpfgen.NodeGateway, be("192.168.0.2"): 0}, m.Nodes4)
	require.Equal(t, map[uint32]bpfgen.BorderWeftGateway4{1: {Underlay: be("192.168.0.1"), Flags: bpfgen.PlaceLocal}}, m.Gateways4)
}

// A plain node knows views and places, but no link, row or wire prefix.
func TestPlainNode(t *testing.T) {
	in := fixture()
	in.Node = "a2"
	in.Nodes[0].Status.UnderlayAddress, in.Nodes[0].Status.UnderlayMTU = "192.168.0.1", 1400
	in.Facts.Underlay = addr("192.168.0.2")
	p := built(t, in)
	require.Empty(t, p.Lanes)
	require.Empty(t, p.Maps.Links)
	require.Empty(t, p.Maps.Rows4)
	require.Empty(t, p.Maps.Wire4)
	require.Empty(t, p.Maps.Accept)
	require.Empty(t, p.Firewall.LanePorts)
	require.Empty(t, p.Firewall.ChannelAddresses)
	require.Len(t, p.Maps.View4, 4)
	require.Equal(t, map[uint32]bpfgen.BorderWeftGateway4{1: {Underlay: be("192.168.0.1")}}, p.Maps.Gateways4)
	require.Equal(t, bpfgen.BorderWeftPlace4{Underlay: be("192.168.0.2"), Flags: bpfgen.PlaceLocal}, p.Maps.Places4[bpfgen.BorderWeftPrefix4{Prefix: be("10.244.2.0"), PrefixLen: 24}])
	require.Equal(t, uint32(1328), p.Maps.Clusters[5].Mtu, "the gateway's lane is the narrowest leg: (1400-60)/16*16")
	require.Equal(t, 1450, p.Overlay.MTU, "the device follows its own underlay")
}

func TestFirewall(t *testing.T) {
	in := fixture()
	c := neighborC()
	in.Neighbors = append(in.Neighbors, c)
	require.Equal(t, &Firewall{
		OverlayPort: 4797, LanePorts: []uint16{51847}, ChannelPort: 9811, ProbePort: 9812,
		Underlays: []netip.Addr{addr("192.168.0.1"), addr("192.168.0.2")},
		OwnPods:   []netip.Prefix{prefix("10.244.0.0/16")}, OwnNodes: []netip.Prefix{prefix("100.64.0.0/20")},
		FabricAddress:    addr("100.64.0.1"),
		Foreign:          []netip.Prefix{prefix("100.70.0.0/16"), prefix("100.71.0.0/20"), prefix("100.72.0.0/16")},
		Granted:          []netip.Prefix{prefix("100.70.0.0/16"), prefix("100.71.0.0/20")},
		ChannelAddresses: []netip.Addr{identity.ChannelAddress(identityA, 1)},
	}, built(t, in).Firewall)
}

// neighborC grants nothing and has no endpoint.
func neighborC() v1alpha1.Neighbor {
	return v1alpha1.Neighbor{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-c", Generation: 1},
		Spec: v1alpha1.NeighborSpec{
			ClusterID: "c", Identity: identityC, ClusterIndex: 6,
			Peers: []v1alpha1.NeighborPeer{{
				GatewayID: 9, ChannelAddress: identity.ChannelAddress(identityC, 9).String(),
				Lanes: []v1alpha1.PeerLane{{Port: 51847, PublicKey: publicKey(0xc9)}},
			}},
			Networks: []v1alpha1.ViewNetwork{{Name: "pods", Kind: v1alpha1.NetworkPod, Index: 1, Original: "10.244.0.0/16", Local: "100.72.0.0/16"}},
			Rows: []v1alpha1.Row{
				{Side: v1alpha1.RowOurs, OwnGateway: 1, RemoteGateway: 9, OriginIndex: 6, NetworkIndex: 1, Local: "100.72.0.0/16", Wire: "240.2.0.0/16"},
			},
		},
	}
}

// A peer that dials us has no endpoint, and only it keeps the tunnel alive.
// Of two that can dial each other, the lower identity does.
func TestOneOfTwoDials(t *testing.T) {
	yields := func(change func(*Input)) bool {
		in := fixture()
		change(&in)
		return built(t, in).Lanes[0].Peers[0].Yields
	}
	greater := func(in *Input) { in.Config.Status.Identity = identityC }
	require.False(t, yields(func(*Input) {}))
	require.True(t, yields(greater))
	require.False(t, yields(func(in *Input) { greater(in); in.Config.Spec.Gateways.Exposure = v1alpha1.ExposureNone }), "the peer cannot dial us")
	require.False(t, yields(func(in *Input) { greater(in); in.Neighbors[0].Spec.Peers[0].Endpoints = nil }), "there is nowhere to dial")
}

func TestPeerBehindNAT(t *testing.T) {
	in := fixture()
	in.Neighbors = []v1alpha1.Neighbor{neighborC()}
	peer := built(t, in).Lanes[0].Peers[0]
	require.Empty(t, peer.Endpoints)
	require.Zero(t, peer.Keepalive)
}

// The same objects in another order give the same plan; building changes none
// of them.
func TestOrderMeansNothing(t *testing.T) {
	in := fixture()
	in.Neighbors = append(in.Neighbors, neighborC())
	want := built(t, in)
	slices.Reverse(in.Neighbors)
	slices.Reverse(in.Nodes)
	slices.Reverse(in.Config.Status.Networks)
	for i := range in.Neighbors {
		slices.Reverse(in.Neighbors[i].Spec.Rows)
		slices.Reverse(in.Neighbors[i].Spec.Networks)
	}
	require.Equal(t, want, built(t, in))
	require.Equal(t, want, built(t, in))
}

// Links keep their ids while neighbors come and go, and a new link gets an id
// that no link has had.
func TestLinkIDsAreStable(t *testing.T) {
	in := fixture()
	in.Neighbors = append(in.Neighbors, neighborC())
	ids := func(p Plan) map[LinkKey]uint16 {
		out := map[LinkKey]uint16{}
		for id, l := range p.Maps.Links {
			out[LinkKey{l.Value.Cluster, l.Value.RemoteGateway}] = uint16(id)
		}
		return out
	}
	in.LinkIDs = map[LinkKey]uint16{{6, 9}: 1, {77, 1}: 2}
	first := ids(built(t, in))
	require.Equal(t, map[LinkKey]uint16{{6, 9}: 1, {5, 1}: 3}, first)
	in.LinkIDs = first
	require.Equal(t, first, ids(built(t, in)))
}

func TestZeroPlan(t *testing.T) {
	in := fixture()
	in.Config = nil
	p, problems := Build(in)
	require.Equal(t, Plan{}, p)
	require.Empty(t, problems)

	in = fixture()
	in.Nodes = in.Nodes[1:]
	p, problems = Build(in)
	require.Equal(t, Plan{}, p)
	require.Len(t, problems, 1)
}

// Before the controller has assigned a fabric address or made the VNI, a
// gateway has a lane, so that its key can be published, and nothing else.
func TestWaitingForTheController(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"no fabric address": func(in *Input) { in.Nodes[0].Spec.FabricAddress = "" },
		"no VNI":            func(in *Input) { in.VNI = 0 },
		"no node network":   func(in *Input) { in.Config.Status.Networks = in.Config.Status.Networks[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			in := fixture()
			change(&in)
			p, problems := Build(in)
			require.NotEmpty(t, problems)
			require.Nil(t, p.Overlay)
			require.Nil(t, p.Firewall)
			require.Empty(t, p.Routing.Routes)
			require.Len(t, p.Lanes, 1)
			require.Empty(t, p.Lanes[0].Peers)
		})
	}
}

// A Neighbor that is being deleted is gone.
func TestDeletedNeighbor(t *testing.T) {
	in := fixture()
	now := metav1.Now()
	in.Neighbors[0].DeletionTimestamp = &now
	p := built(t, in)
	require.Empty(t, p.Lanes[0].Peers)
	require.Empty(t, p.Routing.Routes)
	require.Empty(t, p.Names.Neighbors)
}

func TestNeighborMTU(t *testing.T) {
	in := fixture()
	in.Neighbors[0].Spec.MTU = 1328
	p := built(t, in)
	require.Equal(t, uint32(1328), p.Maps.Clusters[5].Mtu)
	require.Equal(t, 1328, p.Routing.Routes[0].MTU)
	require.Equal(t, 1440, p.Lanes[0].MTU)
}

// WireGuard pads the inner packet to a multiple of 16 and adds 60 bytes.
func TestLaneMTU(t *testing.T) {
	for underlay := 576; underlay < 9100; underlay++ {
		mtu := v1alpha1.LaneMTU(underlay)
		require.Zero(t, mtu%16)
		require.LessOrEqual(t, mtu+60, underlay)
		require.Greater(t, mtu+16+60, underlay)
	}
	require.Equal(t, 1440, v1alpha1.LaneMTU(1500))
}

func TestMAC(t *testing.T) {
	require.Equal(t, MAC("a1"), MAC("a1"))
	require.NotEqual(t, MAC("a1"), MAC("a2"))
	for _, name := range []string{"a1", "a2", "b1", "some-node.example"} {
		mac := MAC(name)
		require.Len(t, mac, 6)
		require.Equal(t, byte(0x02), mac[0]&0x03, "locally administered (0x02), unicast: %s", net.HardwareAddr(mac))
	}
}
