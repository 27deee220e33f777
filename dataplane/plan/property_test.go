package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// checkTables asserts what every plan must hold, whatever the input: each
// table of a link is a bijection, what enters from a link is named once, and
// the tables agree with the rows.
func checkTables(t require.TestingT, p *Plan, policies map[uint8]v1alpha1.PathPolicy) {
	type end struct {
		link uint16
		side uint8
	}
	locals, wires := map[end]*disjoint{}, map[end]*disjoint{}
	oursOfAll := &disjoint{}
	allowed := 0
	for key, row := range p.Maps.Rows4 {
		e := end{key.Link, key.Side}
		if locals[e] == nil {
			locals[e], wires[e] = &disjoint{}, &disjoint{}
		}
		local, wire := asPrefix(row.Local, row.Mask), asPrefix(row.Wire, row.Mask)
		require.NoError(t, locals[e].add(local, "local"))
		require.NoError(t, wires[e].add(wire, "wire"))
		require.Equal(t, bpfgen.Delta(local, wire), row.Delta)
		require.Contains(t, p.Maps.Links, uint32(key.Link))
		if key.Side == bpfgen.SideOurs {
			require.NoError(t, oursOfAll.add(wire, "wire"))
			accept := p.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: key.Link, Cluster: key.Cluster}]
			direct := p.Maps.Links[uint32(key.Link)].Value.Cluster == key.Cluster
			require.Equal(t, direct || policies[key.Cluster] != v1alpha1.PathDirectOnly, accept == 1)
			allowed++
		} else {
			net := p.Maps.Theirs4[bpfgen.BorderWeftTheirsKey{Prefix: row.Wire, Link: key.Link, PrefixLen: uint8(wire.Bits())}]
			require.Equal(t, [2]uint8{key.Cluster, key.Network}, [2]uint8{net.Cluster, net.Network})
		}
	}
	keys, addresses := map[[32]byte]bool{}, map[netip.Prefix]bool{}
	for _, lane := range p.Lanes {
		for _, peer := range lane.Peers {
			require.False(t, keys[peer.PublicKey])
			keys[peer.PublicKey] = true
			for _, a := range peer.AllowedIPs {
				require.False(t, addresses[a], "%s belongs to two peers", a)
				addresses[a] = true
			}
			allowed++ // the channel address
		}
	}
	require.Len(t, addresses, allowed)
	checkPaths(t, p, policies)
	for slot, net := range p.Maps.View4 {
		require.Less(t, slot, uint32(1<<16))
		require.NotEqual(t, net.Flags&bpfgen.NetValid != 0, net.Flags&bpfgen.NetLonger != 0)
	}
	for key := range p.Maps.View4Long {
		require.NotZero(t, p.Maps.Lengths.View4>>(key.PrefixLen-1)&1)
	}
	for key := range p.Maps.Places4 {
		require.NotZero(t, p.Maps.Lengths.Places4>>(key.PrefixLen-1)&1)
	}
}

// checkPaths asserts that a path can be taken: its link leads to the cluster
// itself or has rows for it, and policy has its say. What may be forwarded may
// be answered.
func checkPaths(t require.TestingT, p *Plan, policies map[uint8]v1alpha1.PathPolicy) {
	seen := map[[2]uint32]bool{}
	for _, path := range p.Names.Paths {
		at := [2]uint32{uint32(path.ClusterIndex), uint32(path.Link)}
		require.False(t, seen[at], "a path is named once")
		seen[at] = true
		require.Equal(t, uint8(path.ViaIndex), p.Maps.Links[uint32(path.Link)].Value.Cluster)
		require.Equal(t, path.ProbeSource.IsValid(), path.ProbeDestination.IsValid())
		if path.Direct() {
			require.True(t, path.Permitted || policies[uint8(path.ClusterIndex)] == v1alpha1.PathHubOnly)
			continue
		}
		require.True(t, path.ProbeSource.IsValid())
		require.Equal(t, policies[uint8(path.ClusterIndex)] != v1alpha1.PathDirectOnly, path.Permitted)
	}
	for index := range p.Maps.Transit {
		from, to := index/256, index%256
		require.Contains(t, p.Maps.Transit, to*256+from)
		require.Contains(t, p.Maps.Clusters, from)
		require.NotEqual(t, from, to)
	}
}

func asPrefix(address, mask uint32) netip.Prefix {
	for bits := 0; bits <= 32; bits++ {
		if bpfgen.Mask4(bits) == mask {
			return netip.PrefixFrom(bpfgen.FromAddress4(address), bits)
		}
	}
	panic("not a mask")
}

// randomInput makes a cluster out of few values, so that collisions of every
// kind are common.
func randomInput(r *rand.Rand) Input {
	in := fixture()
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	cidr := func() v1alpha1.CIDR {
		base := netip.AddrFrom4([4]byte{byte([]int{10, 100, 240, 241, 247, 127, 224}[r.IntN(7)]), byte(r.IntN(4) * 64), byte(r.IntN(256)), 0})
		p := netip.PrefixFrom(base, 6+r.IntN(27))
		if r.IntN(20) > 0 {
			p = p.Masked()
		}
		return v1alpha1.CIDR(p.String())
	}
	for i := range 1 + r.IntN(6) {
		id := []v1alpha1.Identity{identityA, identityB, identityC, v1alpha1.Identity(fmt.Sprintf("d%051d", i))}[r.IntN(4)]
		n := v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}}
		n.Spec = v1alpha1.NeighborSpec{
			Identity: id, ClusterIndex: int32(r.IntN(8)), MTU: int32(r.IntN(3) * 700),
			Paths: v1alpha1.PathPolicy(pick("Any", "DirectOnly", "HubOnly", "")), Transit: []int32{int32(r.IntN(8)), int32(r.IntN(300)), -1},
		}
		for range r.IntN(4) {
			g := int32(r.IntN(4))
			n.Spec.Peers = append(n.Spec.Peers, v1alpha1.NeighborPeer{
				GatewayID: g, ChannelAddress: identity.ChannelAddress(id, g).String(), Endpoints: []string{pick("203.0.113.1", "::1", "host", "bad host")},
				Lanes: []v1alpha1.PeerLane{{Port: int32(r.IntN(70000)), PublicKey: publicKey(byte(r.IntN(6)))}},
			})
		}
		for range r.IntN(4) {
			n.Spec.Networks = append(n.Spec.Networks, v1alpha1.ViewNetwork{
				Name: "x", Kind: v1alpha1.NetworkKind(pick("Pod", "Node")), Index: int32(r.IntN(4)), Local: cidr(),
			})
		}
		for range r.IntN(12) {
			row := v1alpha1.Row{
				Side: v1alpha1.RowSide(pick("Ours", "Theirs", "")), OwnGateway: int32(r.IntN(2)), RemoteGateway: int32(r.IntN(4)),
				OriginIndex: int32(r.IntN(8)), NetworkIndex: int32(r.IntN(4)), Local: cidr(), Wire: cidr(),
			}
			if len(n.Spec.Networks) > 0 && r.IntN(3) > 0 { // a row that fits
				v := n.Spec.Networks[r.IntN(len(n.Spec.Networks))]
				row.OriginIndex, row.NetworkIndex, row.Local = n.Spec.ClusterIndex, v.Index, v.Local
				if p, err := netip.ParsePrefix(string(v.Local)); err == nil {
					a := netip.AddrFrom4([4]byte{240, byte(r.IntN(256)), byte(r.IntN(256)), 0})
					row.Wire = v1alpha1.CIDR(netip.PrefixFrom(a, p.Bits()).Masked().String())
				}
			}
			n.Spec.Rows = append(n.Spec.Rows, row)
		}
		in.Neighbors = append(in.Neighbors, n)
	}
	for range r.IntN(12) { // rows that lead on to the cluster behind, and are offered to it
		hub, behind := &in.Neighbors[r.IntN(len(in.Neighbors))].Spec, &in.Neighbors[r.IntN(len(in.Neighbors))].Spec
		if len(behind.Networks) == 0 || len(hub.Peers) == 0 {
			continue
		}
		v := behind.Networks[r.IntN(len(behind.Networks))]
		if p, err := netip.ParsePrefix(string(v.Local)); err == nil {
			a := netip.AddrFrom4([4]byte{242, byte(r.IntN(256)), byte(r.IntN(256)), 0})
			hub.Rows = append(hub.Rows, v1alpha1.Row{
				Side: v1alpha1.RowSide(pick("Ours", "Theirs")), OwnGateway: 1, RemoteGateway: hub.Peers[0].GatewayID,
				OriginIndex: behind.ClusterIndex, NetworkIndex: v.Index, Local: v.Local, Wire: v1alpha1.CIDR(netip.PrefixFrom(a, p.Bits()).Masked().String()),
			}, v1alpha1.Row{
				Side: v1alpha1.RowTheirs, OwnGateway: 1, RemoteGateway: hub.Peers[0].GatewayID, NetworkIndex: 2,
				Local: "100.64.0.0/20", Wire: v1alpha1.CIDR(netip.AddrFrom4([4]byte{243, byte(r.IntN(256)), 16, 0}).String() + "/20"),
			})
		}
	}
	for i := range r.IntN(5) {
		in.Nodes = append(in.Nodes, fabricNode(fmt.Sprintf("x%d", i), fmt.Sprintf("100.64.0.%d", r.IntN(6)), int32(r.IntN(4)),
			fmt.Sprintf("192.168.0.%d", r.IntN(6)), int32(r.IntN(2)*1400), cidr(), "10.244.2.7/32", cidr()))
	}
	return in
}

// Whatever the objects say: the tables are sound, the plan depends on nothing
// but its input, and a plan made with the link ids of the last one equals it.
func checkInput(t require.TestingT, seed uint64) Plan {
	in := randomInput(rand.New(rand.NewPCG(seed, seed)))
	p, problems := Build(in)
	checkTables(t, &p, policiesOf(&in, &p))
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(len(in.Neighbors), func(i, j int) { in.Neighbors[i], in.Neighbors[j] = in.Neighbors[j], in.Neighbors[i] })
	r.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
	in.LinkIDs = map[LinkKey]uint16{}
	for id, l := range p.Maps.Links {
		in.LinkIDs[LinkKey{l.Value.Cluster, l.Value.RemoteGateway}] = uint16(id)
	}
	again, sameProblems := Build(in)
	require.Equal(t, p, again)
	require.Equal(t, problems, sameProblems)
	return p
}

// policiesOf the neighbors that were accepted, by cluster index.
func policiesOf(in *Input, p *Plan) map[uint8]v1alpha1.PathPolicy {
	out := map[uint8]v1alpha1.PathPolicy{}
	for _, c := range p.Names.Clusters {
		for _, n := range in.Neighbors {
			if n.Name == c.Neighbor {
				out[uint8(c.Index)] = n.Spec.Paths
			}
		}
	}
	return out
}

func TestAnyInput(t *testing.T) {
	hubs, transits := 0, 0
	for seed := range uint64(500) {
		p := checkInput(t, seed)
		transits += len(p.Maps.Transit)
		for _, path := range p.Names.Paths {
			if !path.Direct() {
				hubs++
			}
		}
	}
	require.Greater(t, hubs, 20, "the inputs try hubs")
	require.Greater(t, transits, 100)
}

func FuzzBuild(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkInput(t, seed) })
}
