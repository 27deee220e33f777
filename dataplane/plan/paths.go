package plan

import (
	"cmp"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// paths names every way of this gateway to another cluster: each link of that
// cluster, and each link of another neighbor whose rows lead on to it and can be
// probed.
func (b *builder) paths() {
	for _, to := range b.accepted {
		first := len(b.plan.Names.Paths)
		for _, via := range b.accepted {
			for _, p := range via.peers {
				b.path(to, via, p)
			}
		}
		found := b.plan.Names.Paths[first:]
		slices.SortFunc(found, comparePaths)
		permit(found, to.policy)
	}
}

func (b *builder) path(to, via *neighbor, p *peer) {
	destination := p.probeDestinations[to.cluster]
	whole := p.probeSource.IsValid() && destination.IsValid()
	if to != via && !whole {
		return
	}
	name := PathName{
		Cluster: to.object.Name, ClusterIndex: int32(to.cluster), Via: via.object.Name, ViaIndex: int32(via.cluster),
		Link: p.link, Lane: LaneDevice, OwnGateway: b.self.Spec.GatewayID, RemoteGateway: int32(p.gateway),
	}
	if whole {
		name.ProbeSource, name.ProbeDestination = p.probeSource, destination
	}
	b.plan.Names.Paths = append(b.plan.Names.Paths, name)
}

func comparePaths(x, y PathName) int {
	if x.Direct() != y.Direct() {
		if x.Direct() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(x.ViaIndex, y.ViaIndex), cmp.Compare(x.RemoteGateway, y.RemoteGateway))
}

// permit marks the paths to one cluster that traffic may take. A cluster that is
// to be left by hubs alone, but that no hub leads to, is not left.
func permit(paths []PathName, policy v1alpha1.PathPolicy) {
	hub := slices.ContainsFunc(paths, func(p PathName) bool { return !p.Direct() })
	for i := range paths {
		p := &paths[i]
		switch policy {
		case v1alpha1.PathDirectOnly:
			p.Permitted = p.Direct()
		case v1alpha1.PathHubOnly:
			p.Permitted = !p.Direct() || !hub
		default:
			p.Permitted = true
		}
	}
}

// accepts reports whether packets of a cluster may enter from the links of a
// neighbor. What is to be sent no more over a link that ends still enters from
// it, because the two ends do not change at the same time.
func (b *builder) accepts(via, cluster uint8) bool {
	return via == cluster || !b.directOnly[cluster]
}

// transit enters the pairs of neighbors that this gateway forwards between. An
// index that stands for no neighbor grants nothing: the other object may not be
// here yet, or not any more.
func (b *builder) transit() {
	known := map[int32]bool{}
	for _, n := range b.accepted {
		known[int32(n.cluster)] = true
	}
	onward := map[int32]bool{}
	for _, n := range b.accepted {
		one := uint32(n.cluster)
		for _, other := range n.object.Spec.Transit {
			if !known[other] || uint32(other) == one {
				continue
			}
			b.plan.Maps.Transit[transitIndex(one, uint32(other))] = 1
			b.plan.Maps.Transit[transitIndex(uint32(other), one)] = 1
			onward[int32(one)], onward[other] = true, true
		}
	}
	for i := range b.plan.Names.Clusters {
		c := &b.plan.Names.Clusters[i]
		c.Onward = onward[c.Index]
	}
}

// transitIndex is the index of a pair in the transit map (bpf/lib/maps.h).
func transitIndex(from, to uint32) uint32 { return from*bpfgen.MaxClusters + to }
