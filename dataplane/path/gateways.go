package path

import (
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// maxChoice is the number of gateways that a choice word has room for.
const maxChoice = 7

// reaches reports whether this gateway says that it reaches a cluster: any path
// that may be taken is up, whichever that is, so that a gateway that changes
// between them loses no node. As long as no probe has given a verdict, what it
// said before stands.
func reaches(paths []Path, previous bool) bool {
	up, silent := verdict(paths)
	return up || silent && previous
}

// verdict over all paths to a cluster: whether one is up, and whether one has no
// verdict yet.
func verdict(paths []Path) (up, silent bool) {
	for i := range paths {
		up = up || paths[i].up()
		silent = silent || paths[i].silent()
	}
	return up, silent
}

func chooseGateways(in Input, cluster uint8, paths []Path, previous []uint8) []uint8 {
	if in.Self != 0 && ownFirst(in.Self, paths, previous) {
		return []uint8{in.Self}
	}
	var good, all []uint8
	for _, g := range in.Gateways {
		if g.ID == in.Self {
			if slices.ContainsFunc(paths, func(p Path) bool { return p.Permitted }) {
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

// ownFirst reports whether a gateway uses its own paths: where one is up, and
// where none has a verdict yet unless it did otherwise before.
func ownFirst(self uint8, paths []Path, previous []uint8) bool {
	up, silent := verdict(paths)
	return up || silent && (len(previous) == 0 || slices.Contains(previous, self))
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
