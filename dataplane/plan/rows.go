package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

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
		b.paths()
		b.transit()
	}
	b.held()
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
		return errors.New("that network is not known here, or not yet")
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
// ingress. On the link of a hub that is also a cluster behind it.
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
	if b.accepts(n.cluster, network.id.cluster) {
		b.plan.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: p.link, Cluster: network.id.cluster}] = 1
	}
	p.AllowedIPs = append(p.AllowedIPs, wire)
	if network.kind == v1alpha1.NetworkNode && !p.probeDestinations[network.id.cluster].IsValid() {
		p.probeDestinations[network.id.cluster] = wire.Addr()
	}
	return nil
}

// theirs enters a wire prefix that the neighbor chose: what a destination means
// at ingress from this link. To a neighbor that uses this cluster as a hub that
// is also another neighbor.
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
	if network.id.cluster == bpfgen.Self && network.kind == v1alpha1.NetworkNode && !p.probeSource.IsValid() {
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
