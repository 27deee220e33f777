package plan

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// hubC is neighbor c, which leads on to b: A chose wire prefixes for c's own
// networks and for b's as they enter from c's gateway 9, and C one for A's node
// network.
func hubC() v1alpha1.Neighbor {
	c := neighborC()
	c.Spec.Networks = append(c.Spec.Networks, v1alpha1.ViewNetwork{
		Name: "nodes", Kind: v1alpha1.NetworkNode, Index: 2, Original: "100.64.0.0/20", Local: "100.73.0.0/20",
	})
	row := func(side v1alpha1.RowSide, origin, network int32, local, wire v1alpha1.CIDR) v1alpha1.Row {
		return v1alpha1.Row{Side: side, OwnGateway: 1, RemoteGateway: 9, OriginIndex: origin, NetworkIndex: network, Local: local, Wire: wire}
	}
	c.Spec.Rows = append(c.Spec.Rows,
		row(v1alpha1.RowOurs, 6, 2, "100.73.0.0/20", "100.73.0.0/20"),
		row(v1alpha1.RowOurs, 5, 1, "100.70.0.0/16", "240.3.0.0/16"),
		row(v1alpha1.RowOurs, 5, 2, "100.71.0.0/20", "240.4.0.0/20"),
		row(v1alpha1.RowTheirs, 0, 1, "10.244.0.0/16", "240.9.0.0/16"),
		row(v1alpha1.RowTheirs, 0, 2, "100.64.0.0/20", "240.8.0.0/20"),
	)
	return c
}

// behindHub takes what only a direct link has from a neighbor.
func behindHub(n v1alpha1.Neighbor) v1alpha1.Neighbor {
	n.Spec.Peers, n.Spec.Rows = nil, nil
	return n
}

// viaC is what every path over the link to c has in common.
func viaC(link uint16) PathName {
	return PathName{Via: "c", ViaIndex: 6, Link: link, Lane: "weft0", OwnGateway: 1, RemoteGateway: 9, ProbeSource: addr("240.8.0.0"), Permitted: true}
}

// b is known through c alone: no peer, one path, whose packets are accepted from
// c's link under wire prefixes of their own.
func TestClusterBehindHub(t *testing.T) {
	in := fixture()
	in.Neighbors = []v1alpha1.Neighbor{behindHub(neighborB()), hubC()}
	p := built(t, in)
	toB, toC := viaC(1), viaC(1)
	toB.Cluster, toB.ClusterIndex, toB.ProbeDestination = "b", 5, addr("240.4.0.0")
	toC.Cluster, toC.ClusterIndex, toC.ProbeDestination = "c", 6, addr("100.73.0.0")
	require.Equal(t, []PathName{toB, toC}, p.Names.Paths)
	require.Equal(t, map[bpfgen.BorderWeftAcceptKey]uint32{{Link: 1, Cluster: 5}: 1, {Link: 1, Cluster: 6}: 1}, p.Maps.Accept)
	require.Equal(t, bpfgen.BorderWeftWire{Link: 1, Flags: bpfgen.NetValid, PrefixLen: 16, Cluster: 5, Network: 1}, p.Maps.Wire4[240<<8|3])
	require.Equal(t, be("240.4.0.0"), p.Maps.Rows4[bpfgen.BorderWeftRowKey{Link: 1, Side: bpfgen.SideOurs, Cluster: 5, Network: 2}].Wire)
	require.Len(t, p.Lanes[0].Peers, 1)
	require.Contains(t, p.Lanes[0].Peers[0].AllowedIPs, prefix("240.3.0.0/16"))
	require.Contains(t, p.Lanes[0].Peers[0].AllowedIPs, prefix("240.4.0.0/20"))
	require.Len(t, p.Routing.Routes, 4, "the views of both have routes")
	require.Equal(t, []v1alpha1.AppliedNeighbor{{Name: "b", UID: "uid-b", Generation: 3}, {Name: "c", UID: "uid-c", Generation: 1}}, p.Names.Neighbors)
	require.Empty(t, p.Maps.Transit, "a user of a hub forwards nothing")
	require.Equal(t, []LinkName{{
		Link: 1, Lane: "weft0", Neighbor: "c", ClusterIndex: 6, OwnGateway: 1, RemoteGateway: 9, PublicKey: key(0xc9),
		ChannelAddress: identity.ChannelAddress(identityC, 9),
	}}, p.Names.Links)
}

// With b's own link beside the hub's, each policy permits its paths and no
// other; only DirectOnly refuses what comes from the hub.
func TestPolicyOfPaths(t *testing.T) {
	for _, c := range []struct {
		policy      v1alpha1.PathPolicy
		direct, hub bool
		accept      bool
	}{
		{"", true, true, true},
		{v1alpha1.PathAny, true, true, true},
		{v1alpha1.PathDirectOnly, true, false, false},
		{v1alpha1.PathHubOnly, false, true, true},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			in := fixture()
			in.Neighbors = append(in.Neighbors, hubC())
			in.Neighbors[0].Spec.Paths = c.policy
			p := built(t, in)
			require.Len(t, p.Names.Paths, 3)
			direct, hub, toC := p.Names.Paths[0], p.Names.Paths[1], p.Names.Paths[2]
			require.Equal(t, [3]string{"b", "b", "c"}, [3]string{direct.Cluster, hub.Cluster, toC.Cluster})
			require.True(t, direct.Direct())
			require.False(t, hub.Direct())
			require.Equal(t, [2]bool{c.direct, c.hub}, [2]bool{direct.Permitted, hub.Permitted})
			require.True(t, toC.Permitted)
			require.Equal(t, addr("100.71.0.0"), direct.ProbeDestination)
			require.Equal(t, addr("240.4.0.0"), hub.ProbeDestination, "probed whatever the policy")
			require.Equal(t, uint32(1), p.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: direct.Link, Cluster: 5}])
			_, accepted := p.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: hub.Link, Cluster: 5}]
			require.Equal(t, c.accept, accepted)
			require.Equal(t, uint32(1), p.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: hub.Link, Cluster: 6}], "c's own packets always enter")
		})
	}
}

// A direct link that is to end is left only where a hub leads on; one that a hub
// cannot replace stays.
func TestHubOnlyWithoutHub(t *testing.T) {
	in := fixture()
	in.Neighbors[0].Spec.Paths = v1alpha1.PathHubOnly
	paths := built(t, in).Names.Paths
	require.Len(t, paths, 1)
	require.True(t, paths[0].Permitted)
}

// A direct path is named before its rows are there, without probe addresses; a
// hub path only once it can be probed.
func TestPathsWaitForRows(t *testing.T) {
	in := fixture()
	in.Neighbors = append(in.Neighbors, hubC())
	theirs := func(r v1alpha1.Row) bool { return r.Side == v1alpha1.RowTheirs }
	for i := range in.Neighbors {
		in.Neighbors[i].Spec.Rows = slices.DeleteFunc(in.Neighbors[i].Spec.Rows, theirs)
	}
	paths := built(t, in).Names.Paths
	require.Len(t, paths, 2)
	for _, path := range paths {
		require.True(t, path.Direct())
		require.Equal(t, [2]netip.Addr{}, [2]netip.Addr{path.ProbeSource, path.ProbeDestination})
	}
}

// A network that moves has both its prefixes for a while: the probes stay where
// they are.
func TestProbesOfAMovingNetwork(t *testing.T) {
	in := fixture()
	b := &in.Neighbors[0].Spec
	b.Networks = append(b.Networks, v1alpha1.ViewNetwork{Name: "nodes", Kind: v1alpha1.NetworkNode, Index: 3, Original: "100.65.0.0/20", Local: "100.75.0.0/20"})
	b.Rows = append(b.Rows, v1alpha1.Row{
		Side: v1alpha1.RowOurs, OwnGateway: 1, RemoteGateway: 1, OriginIndex: 5, NetworkIndex: 3, Local: "100.75.0.0/20", Wire: "100.75.0.0/20",
	})
	require.Equal(t, addr("100.71.0.0"), built(t, in).Names.Paths[0].ProbeDestination)
}

// The hub's own side, seen from C as node a1 of the fixture: neighbors b (5) and
// c (6) are what it forwards between. b chose wire prefixes for c's networks.
func TestHub(t *testing.T) {
	in := fixture()
	in.Neighbors = append(in.Neighbors, neighborC())
	in.Neighbors[0].Spec.Rows = append(in.Neighbors[0].Spec.Rows, v1alpha1.Row{
		Side: v1alpha1.RowTheirs, OwnGateway: 1, RemoteGateway: 1, OriginIndex: 6, NetworkIndex: 1, Local: "100.72.0.0/16", Wire: "240.7.0.0/16",
	})
	in.Neighbors[0].Spec.Transit = []int32{6, 77, 5, 0, 300, -1}
	p := built(t, in)
	require.Equal(t, map[uint32]uint32{5<<8 | 6: 1, 6<<8 | 5: 1}, p.Maps.Transit, "both ways, and no index that stands for nothing")
	require.Equal(t, bpfgen.BorderWeftNet{Flags: bpfgen.NetValid, PrefixLen: 16, Cluster: 6, Network: 1},
		p.Maps.Theirs4[bpfgen.BorderWeftTheirsKey{Prefix: be("240.7.0.0"), Link: 1, PrefixLen: 16}])
	require.Equal(t, be("100.72.0.0"), p.Maps.Rows4[bpfgen.BorderWeftRowKey{Link: 1, Side: bpfgen.SideTheirs, Cluster: 6, Network: 1}].Local)
	require.Equal(t, []ClusterName{{Neighbor: "b", Index: 5, Onward: true}, {Neighbor: "c", Index: 6, Onward: true}}, p.Names.Clusters)
	require.Len(t, p.Names.Neighbors, 2)
	require.Len(t, p.Names.Paths, 2, "what is offered to a neighbor is no path")

	in.Neighbors[0].Spec.Transit, in.Neighbors[1].Spec.Transit = nil, []int32{5}
	require.Equal(t, p.Maps.Transit, built(t, in).Maps.Transit, "whichever of the two names the other")

	in.Node, in.Facts.Underlay = "a2", addr("192.168.0.2")
	in.Nodes[0].Status.UnderlayAddress = "192.168.0.1"
	plain := built(t, in)
	require.Empty(t, plain.Maps.Transit)
	require.Empty(t, plain.Names.Paths)
}

// A row of a cluster that is not known yet keeps its Neighbor from being held,
// and nothing else; it is held once the other object is there.
func TestRowOfUnknownClusterIsNotHeld(t *testing.T) {
	in := fixture()
	in.Neighbors = []v1alpha1.Neighbor{hubC()}
	p, problems := Build(in)
	require.Len(t, problems, 2)
	require.Equal(t, "c", problems[0].Neighbor)
	require.Contains(t, problems[0].Message, "cluster 5")
	require.Empty(t, p.Names.Neighbors)
	require.Len(t, p.Maps.Rows4, 4)
	require.Len(t, p.Names.Paths, 1)

	in.Neighbors = append(in.Neighbors, behindHub(neighborB()))
	require.Len(t, built(t, in).Names.Neighbors, 2)

	now := metav1.Now()
	in.Neighbors[1].DeletionTimestamp = &now
	p, _ = Build(in)
	require.Empty(t, p.Names.Neighbors)
}

// The same paths whatever the order of objects and rows.
func TestPathsInOrder(t *testing.T) {
	in := fixture()
	in.Neighbors = append(in.Neighbors, hubC())
	want := built(t, in)
	slices.Reverse(in.Neighbors)
	for i := range in.Neighbors {
		slices.Reverse(in.Neighbors[i].Spec.Rows)
	}
	require.Equal(t, want, built(t, in))
}
