package path

import (
	"cmp"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// maxChoice is the number of gateways that a choice word has room for.
const maxChoice = 7

// Choose returns the words for the clusters of the input; words of other
// clusters are zero. Equal input gives equal words, whatever its order.
//
// A node sends to its own link where that is up, else to every gateway that
// answers and reaches the cluster. Silence of a probe that never had an answer
// (a new agent, a new peer) changes nothing, and with every way dead the last
// choice stands: it may be the measurement that is broken.
func Choose(in Input) plan.Words {
	in = sorted(in)
	words := plan.Words{Paths: map[uint32]uint32{}, Choices: map[uint32]uint64{}}
	for _, cluster := range in.Clusters {
		index := uint32(cluster)
		links := linksTo(in.Links, cluster)
		if link := chooseLink(links, uint16(in.Previous.Paths[index])); link != 0 {
			words.Paths[index] = uint32(link)
		}
		if reaches(links, HasReach(in.Previous.Reach, cluster)) {
			words.Reach.Bits[cluster/64] |= 1 << (cluster % 64)
		}
		if choice := chooseGateways(in, cluster, links, Unpack(in.Previous.Choices[index])); len(choice) > 0 {
			words.Choices[index] = Pack(choice)
		}
	}
	return words
}

func sorted(in Input) Input {
	in.Clusters, in.Gateways, in.Links = slices.Clone(in.Clusters), slices.Clone(in.Gateways), slices.Clone(in.Links)
	slices.Sort(in.Clusters)
	slices.SortFunc(in.Gateways, func(x, y Gateway) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(in.Links, func(x, y Link) int { return cmp.Compare(x.ID, y.ID) })
	return in
}

func linksTo(links []Link, cluster uint8) []Link {
	var out []Link
	for _, l := range links {
		if l.Cluster == cluster {
			out = append(out, l)
		}
	}
	return out
}

// chooseLink stays on the link in use unless that is down, else takes the first
// that is up, else stays, else takes the first of all.
func chooseLink(links []Link, previous uint16) uint16 {
	used := slices.IndexFunc(links, func(l Link) bool { return l.ID == previous })
	up := slices.IndexFunc(links, func(l Link) bool { return l.State == v1alpha1.PathUp })
	switch {
	case len(links) == 0:
		return 0
	case used >= 0 && (links[used].State != v1alpha1.PathDown || up < 0):
		return previous
	case up >= 0:
		return links[up].ID
	}
	return links[0].ID
}

// reaches reports whether this gateway says that it reaches a cluster by these
// links. As long as no probe has given a verdict, what it said before stands.
func reaches(links []Link, previous bool) bool {
	unknown := false
	for _, l := range links {
		switch l.State {
		case v1alpha1.PathUp:
			return true
		case v1alpha1.PathDown:
		default:
			unknown = true
		}
	}
	return unknown && previous
}

func chooseGateways(in Input, cluster uint8, links []Link, previous []uint8) []uint8 {
	if in.Self != 0 && ownFirst(in.Self, links, previous) {
		return []uint8{in.Self}
	}
	var good, all []uint8
	for _, g := range in.Gateways {
		if g.ID == in.Self {
			if len(links) > 0 {
				all = append(all, g.ID)
			}
			continue
		}
		all = append(all, g.ID)
		up := g.State == v1alpha1.PathUp && HasReach(g.Reach, cluster)
		silent := g.State != v1alpha1.PathUp && g.State != v1alpha1.PathDown
		if up || silent && slices.Contains(previous, g.ID) {
			good = append(good, g.ID)
		}
	}
	if len(good) > 0 {
		return good[:min(len(good), maxChoice)]
	}
	last := slices.DeleteFunc(previous, func(id uint8) bool { return !slices.Contains(all, id) })
	if len(last) > 0 {
		return last
	}
	return all[:min(len(all), maxChoice)]
}

// ownFirst reports whether a gateway uses its own links: where one is up, and
// where none has a verdict yet unless it did otherwise before.
func ownFirst(self uint8, links []Link, previous []uint8) bool {
	unknown := false
	for _, l := range links {
		switch l.State {
		case v1alpha1.PathUp:
			return true
		case v1alpha1.PathDown:
		default:
			unknown = true
		}
	}
	return unknown && (len(previous) == 0 || slices.Contains(previous, self))
}

// Pack makes a choice word: the lowest byte is the number of gateways, the next
// ones are their ids (bpf/lib/maps.h).
func Pack(gateways []uint8) uint64 {
	word := uint64(len(gateways))
	for i, id := range gateways {
		word |= uint64(id) << (8 * (i + 1))
	}
	return word
}

// Unpack returns the gateways of a choice word.
func Unpack(word uint64) []uint8 {
	var out []uint8
	for i := range min(word&0xff, maxChoice) {
		out = append(out, uint8(word>>(8*(i+1))))
	}
	return out
}

// HasReach reports whether a reachability set names a cluster.
func HasReach(reach bpfgen.BorderWeftReach, cluster uint8) bool {
	return reach.Bits[cluster/64]>>(cluster%64)&1 == 1
}
