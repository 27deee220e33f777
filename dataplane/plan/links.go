package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// maxLinks is the number of links that the links map holds; 0 names none.
const maxLinks = 255

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

func (b *builder) finishPeer(n *neighbor, p *peer) {
	slices.SortFunc(p.AllowedIPs, netip.Prefix.Compare)
	b.plan.Lanes[0].Peers = append(b.plan.Lanes[0].Peers, p.Peer)
	b.plan.Names.Links = append(b.plan.Names.Links, LinkName{
		Link: p.link, Lane: LaneDevice, Neighbor: n.object.Name, ClusterIndex: int32(n.cluster),
		OwnGateway: b.self.Spec.GatewayID, RemoteGateway: int32(p.gateway), PublicKey: p.PublicKey, ChannelAddress: p.ChannelAddress,
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
