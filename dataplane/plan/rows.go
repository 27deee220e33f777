package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// maxLinks is the number of links that the links map holds; 0 names none.
const maxLinks = 255

// rows plans what only a gateway has: links, their two tables, and the peers of
// the lane.
func (b *builder) rows() {
	if b.isGateway() && len(b.plan.Lanes) > 0 {
		b.assignLinks()
		for _, n := range b.accepted {
			b.neighborRows(n)
			for _, p := range n.peers {
				b.finishPeer(n, p)
			}
		}
		slices.SortFunc(b.plan.Lanes[0].Peers, func(x, y Peer) int { return slices.Compare(x.PublicKey[:], y.PublicKey[:]) })
	}
	b.held()
}

// assignLinks gives each link its id: the one that it has, else one that no
// link has had, so that counters and rows of an old link are not taken for
// those of a new one, else one that is free.
func (b *builder) assignLinks() {
	used := map[uint16]bool{}
	var without []*peer
	owner := map[*peer]*neighbor{}
	for _, n := range b.accepted {
		for _, p := range n.peers {
			id := b.in.LinkIDs[LinkKey{n.cluster, p.gateway}]
			if id >= 1 && id <= maxLinks && !used[id] {
				p.link, used[id] = id, true
				continue
			}
			without, owner[p] = append(without, p), n
		}
	}
	known := maps.Clone(used)
	for _, id := range b.in.LinkIDs {
		known[id] = true
	}
	for _, p := range without {
		if p.link = freeLink(known, used); p.link == 0 {
			n := owner[p]
			b.problem(n.object.Name, "gateway %d is left out: this gateway has %d links already, the most it can have", p.gateway, maxLinks)
			n.peers = slices.DeleteFunc(n.peers, func(q *peer) bool { return q == p })
			continue
		}
		known[p.link], used[p.link] = true, true
	}
}

// freeLink returns the least id that is in neither set, else the least that is
// not in the second, else 0.
func freeLink(known, used map[uint16]bool) uint16 {
	for _, set := range []map[uint16]bool{known, used} {
		for id := uint16(1); id <= maxLinks; id++ {
			if !set[id] {
				return id
			}
		}
	}
	return 0
}

// neighborRows enters the rows of this gateway's links to the neighbor.
func (b *builder) neighborRows(n *neighbor) {
	peers := map[int32]*peer{}
	theirs := map[*peer]*disjoint{}
	for _, p := range n.peers {
		peers[int32(p.gateway)], theirs[p] = p, &disjoint{}
		b.plan.Maps.Links[uint32(p.link)] = Link{Lane: LaneDevice, Value: bpfgen.BorderWeftLink{
			Flags: bpfgen.LinkValid, Cluster: n.cluster,
			OwnGateway: uint8(b.self.Spec.GatewayID), RemoteGateway: p.gateway,
		}}
	}
	rows := slices.Clone(n.object.Spec.Rows)
	slices.SortFunc(rows, compareRows)
	for i := range rows {
		r := &rows[i]
		if r.OwnGateway != b.self.Spec.GatewayID {
			continue
		}
		err := errors.New("the neighbor has no such gateway that could be used")
		if p := peers[r.RemoteGateway]; p != nil {
			err = b.row(n, p, r, theirs[p])
		}
		if err != nil {
			b.problem(n.object.Name, "row %s of network %d of cluster %d with gateway %d (%.50s to %.50s) is left out: %v",
				r.Side, r.NetworkIndex, r.OriginIndex, r.RemoteGateway, r.Local, r.Wire, err)
		}
	}
}

func compareRows(x, y v1alpha1.Row) int {
	return cmp.Or(
		cmp.Compare(x.Side, y.Side), cmp.Compare(x.RemoteGateway, y.RemoteGateway),
		cmp.Compare(x.OriginIndex, y.OriginIndex), cmp.Compare(x.NetworkIndex, y.NetworkIndex),
		cmp.Compare(x.Local, y.Local), cmp.Compare(x.Wire, y.Wire),
	)
}

// row enters one bijection. theirs holds the prefixes that the neighbor has
// named on this link.
func (b *builder) row(n *neighbor, p *peer, r *v1alpha1.Row, theirs *disjoint) error {
	wire, ok, err := parseNetwork(r.Wire)
	if err != nil || !ok {
		return err
	}
	if r.OriginIndex < 0 || r.OriginIndex > 255 {
		return errors.New("its origin is not a cluster index")
	}
	network, ok := b.networks[networkID{uint8(r.OriginIndex), uint8(r.NetworkIndex)}]
	if !ok || checkIndex(r.NetworkIndex) != nil {
		return errors.New("that network is not known here")
	}
	if string(r.Local) != network.local.String() || wire.Bits() != network.local.Bits() {
		return fmt.Errorf("that network is %s here, and both prefixes must have its length", network.local)
	}
	side := uint8(bpfgen.SideOurs)
	if r.Side == v1alpha1.RowTheirs {
		side = bpfgen.SideTheirs
	}
	key := bpfgen.BorderWeftRowKey{Link: p.link, Side: side, Cluster: network.id.cluster, Network: network.id.index}
	if _, ok := b.plan.Maps.Rows4[key]; ok {
		return errors.New("the link has another row for it")
	}
	switch r.Side {
	case v1alpha1.RowOurs:
		err = b.ours(n, p, network, wire)
	case v1alpha1.RowTheirs:
		err = b.theirs(n, p, network, wire, theirs)
	default:
		err = errors.New("its side is neither Ours nor Theirs")
	}
	if err != nil {
		return err
	}
	b.plan.Maps.Rows4[key] = bpfgen.BorderWeftRow4{
		Local: bpfgen.Address4(network.local.Addr()), Wire: bpfgen.Address4(wire.Addr()), Mask: bpfgen.Mask4(wire.Bits()),
		Delta: bpfgen.Delta(network.local, wire),
	}
	return nil
}

// ours enters a wire prefix that this cluster chose: whose source it is at
// ingress.
func (b *builder) ours(n *neighbor, p *peer, network network, wire netip.Prefix) error {
	if network.id.cluster == bpfgen.Self {
		return errors.New("own networks do not enter from a neighbor")
	}
	if wire != network.local && !contains(b.wirePools(), wire) {
		return errors.New("its wire prefix is neither the local view nor from FabricConfig.spec.wirePools")
	}
	if err := b.wires.add(wire, "neighbor "+n.object.Name); err != nil {
		return err
	}
	value := bpfgen.BorderWeftWire{
		Link: p.link, Flags: network.flags(), PrefixLen: uint8(wire.Bits()),
		Cluster: network.id.cluster, Network: network.id.index,
	}
	insert(b.plan.Maps.Wire4, b.plan.Maps.Wire4Long, &b.plan.Maps.Lengths.Wire4, wire, value, bpfgen.BorderWeftWire{Flags: bpfgen.NetLonger})
	b.plan.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: p.link, Cluster: network.id.cluster}] = 1
	p.AllowedIPs = append(p.AllowedIPs, wire)
	if network.id.cluster == n.cluster && network.kind == v1alpha1.NetworkNode {
		p.probeDestination = wire.Addr()
	}
	return nil
}

// theirs enters a wire prefix that the neighbor chose: what a destination means
// at ingress from this link.
func (b *builder) theirs(n *neighbor, p *peer, network network, wire netip.Prefix, named *disjoint) error {
	if network.id.cluster == n.cluster {
		return errors.New("a neighbor's own networks do not leave towards it")
	}
	if err := named.add(wire, "this link"); err != nil {
		return err
	}
	key := bpfgen.BorderWeftTheirsKey{Prefix: bpfgen.Address4(wire.Addr()), Link: p.link, PrefixLen: uint8(wire.Bits())}
	b.plan.Maps.Theirs4[key] = network.entry()
	link := b.plan.Maps.Links[uint32(p.link)]
	link.Value.TheirsLengths |= lengthBit(wire)
	b.plan.Maps.Links[uint32(p.link)] = link
	if network.id.cluster == bpfgen.Self && network.kind == v1alpha1.NetworkNode {
		p.probeSource = wire.Addr()
	}
	return nil
}

func (b *builder) wirePools() []netip.Prefix {
	var out []netip.Prefix
	for _, cidr := range b.in.Config.Spec.WirePools {
		if p, err := netip.ParsePrefix(string(cidr)); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func (b *builder) finishPeer(n *neighbor, p *peer) {
	slices.SortFunc(p.AllowedIPs, netip.Prefix.Compare)
	b.plan.Lanes[0].Peers = append(b.plan.Lanes[0].Peers, p.Peer)
	b.plan.Names.Links = append(b.plan.Names.Links, LinkName{
		Link: p.link, Lane: LaneDevice, Neighbor: n.object.Name, ClusterIndex: int32(n.cluster),
		OwnGateway: b.self.Spec.GatewayID, RemoteGateway: int32(p.gateway), PublicKey: p.PublicKey,
		ProbeSource: p.probeSource, ProbeDestination: p.probeDestination,
	})
}

// held names the Neighbors that the plan holds in full.
func (b *builder) held() {
	refused := map[string]bool{}
	for _, p := range b.problems {
		refused[p.Neighbor] = true
	}
	for _, n := range b.accepted {
		if o := n.object; !refused[o.Name] {
			b.plan.Names.Neighbors = append(b.plan.Names.Neighbors, v1alpha1.AppliedNeighbor{Name: o.Name, UID: o.UID, Generation: o.Generation})
		}
	}
	slices.SortFunc(b.plan.Names.Neighbors, func(x, y v1alpha1.AppliedNeighbor) int { return cmp.Compare(x.Name, y.Name) })
	slices.SortFunc(b.plan.Names.Nodes, func(x, y NodeName) int { return cmp.Compare(x.Name, y.Name) })
}
