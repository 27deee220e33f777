package path

import (
	"cmp"
	"slices"
	"time"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// Choose returns the choice for the clusters of the input; words of other
// clusters are zero. Equal input gives an equal choice, whatever its order.
//
// A node sends over its own paths where one is up, else to every gateway that
// answers and reaches the cluster. Silence of a probe that never had an answer
// (a new agent, a new peer) changes nothing, and with every way dead the last
// choice stands: it may be the measurement that is broken.
func Choose(in Input) Choice {
	in = sorted(in)
	out := newChoice()
	for _, cluster := range in.Clusters {
		paths := pathsTo(in.Paths, cluster)
		out.path(in, cluster, paths)
		if reaches(paths, HasReach(in.Previous.Reach, cluster)) {
			out.Reach.Bits[cluster/64] |= 1 << (cluster % 64)
		}
		if gateways := chooseGateways(in, cluster, paths, Unpack(in.Previous.Choices[uint32(cluster)])); len(gateways) > 0 {
			out.Choices[uint32(cluster)] = Pack(gateways)
		}
	}
	return out
}

func newChoice() Choice {
	return Choice{
		Words:      plan.Words{Paths: map[uint32]uint32{}, Choices: map[uint32]uint64{}},
		Changed:    map[uint8]time.Time{},
		Contenders: map[uint8]Contender{},
		Reasons:    reasons{},
		Alternates: map[uint8]uint16{},
	}
}

// path decides about the paths to one cluster.
func (c *Choice) path(in Input, cluster uint8, paths []Path) {
	changed, known := in.Previous.Changed[cluster]
	before := former{uint16(in.Previous.Paths[uint32(cluster)]), changed, in.Previous.Contenders[cluster], slices.Contains(in.Onward, cluster)}
	d := decide(in.Now, paths, before)
	reasons(c.Reasons).explain(paths, d)
	if d.chosen != nil {
		c.Paths[uint32(cluster)] = uint32(d.chosen.Link)
	}
	if linkOf(d.chosen) != before.link {
		c.Changed[cluster] = in.Now
	} else if known {
		c.Changed[cluster] = changed
	}
	if d.contender != nil {
		c.Contenders[cluster] = Contender{d.contender.Link, d.since}
	}
	if a := alternate(paths, d.chosen); a != nil {
		c.Alternates[cluster] = a.Link
	}
	if !d.again.IsZero() && (c.Again.IsZero() || d.again.Before(c.Again)) {
		c.Again = d.again
	}
}

func linkOf(p *Path) uint16 {
	if p == nil {
		return 0
	}
	return p.Link
}

// sorted puts a cluster's direct paths first, and older links first.
func sorted(in Input) Input {
	in.Clusters, in.Gateways, in.Paths = slices.Clone(in.Clusters), slices.Clone(in.Gateways), slices.Clone(in.Paths)
	slices.Sort(in.Clusters)
	slices.SortFunc(in.Gateways, func(x, y Gateway) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(in.Paths, func(x, y Path) int {
		return cmp.Or(cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(kind(x), kind(y)), cmp.Compare(x.Link, y.Link))
	})
	return in
}

// kind orders direct paths before those over hubs.
func kind(p Path) int {
	if p.Direct {
		return 0
	}
	return 1
}

// pathsTo returns the part of the sorted paths that leads to a cluster.
func pathsTo(paths []Path, cluster uint8) []Path {
	from, _ := slices.BinarySearchFunc(paths, cluster, func(p Path, c uint8) int { return cmp.Compare(p.Cluster, c) })
	to := from
	for to < len(paths) && paths[to].Cluster == cluster {
		to++
	}
	return paths[from:to]
}
