package agentapi

import (
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Transit says between which neighbors this cluster is a hub, and for how many
// clusters a neighbor is one. The zero Transit is no hub.
type Transit struct {
	// Clusters is the cluster index of each channel address of a neighbor.
	Clusters map[netip.Addr]int32
	// Pairs of cluster indexes that are forwarded, the lower index first.
	Pairs map[Pair]bool
	// Behind is how many clusters are reached through the neighbor of an index.
	Behind map[int32]int
}

// Pair of cluster indexes, the lower one first.
type Pair [2]int32

func pairOf(a, b int32) Pair { return Pair{min(a, b), max(a, b)} }

// TransitOf reads it from the Neighbors.
func TransitOf(neighbors []v1alpha1.Neighbor) Transit {
	t := Transit{Clusters: map[netip.Addr]int32{}, Pairs: map[Pair]bool{}, Behind: map[int32]int{}}
	for i := range neighbors {
		spec := &neighbors[i].Spec
		for _, peer := range spec.Peers {
			if address, err := netip.ParseAddr(peer.ChannelAddress); err == nil {
				t.Clusters[address] = spec.ClusterIndex
			}
		}
		for _, other := range spec.Transit {
			if other != spec.ClusterIndex {
				t.Pairs[pairOf(spec.ClusterIndex, other)] = true
			}
		}
		if behind := originsBehind(spec); behind > 0 {
			t.Behind[spec.ClusterIndex] = behind
		}
	}
	return t
}

// originsBehind counts the clusters whose networks we send over a neighbor's
// links, without its own.
func originsBehind(spec *v1alpha1.NeighborSpec) int {
	var origins []int32
	for _, row := range spec.Rows {
		if row.Side == v1alpha1.RowOurs && row.OriginIndex != 0 && row.OriginIndex != spec.ClusterIndex {
			origins = append(origins, row.OriginIndex)
		}
	}
	slices.Sort(origins)
	return len(slices.Compact(origins))
}

// pair returns the clusters of two channel addresses; false unless they are
// forwarded to each other.
func (t Transit) pair(a, b netip.Addr) (Pair, bool) {
	first, known := t.Clusters[a]
	second, both := t.Clusters[b]
	pair := pairOf(first, second)
	return pair, known && both && t.Pairs[pair]
}
