package measure

import (
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// risingFor is how long after its last rise a count of outer fragments counts as
// rising. A gateway sends one packet of full size on each link every ten seconds
// at least, so a count that stands still for longer does so for a reason.
const risingFor = 3 * time.Minute

// fragmentCount is what the far end of a link has counted, and when that rose
// last; zero if never.
type fragmentCount struct {
	count uint32
	rose  time.Time
}

// followFragments returns the counts after another reading. The first count of
// a link and one that is less (the far end has rebooted) are where it starts
// from. A link without any answer has no count: its gateway's agent has
// restarted.
func followFragments(known map[Path]fragmentCount, links []agent.Path, now time.Time) map[Path]fragmentCount {
	next := map[Path]fragmentCount{}
	for _, l := range links {
		path := PathOf(l)
		before, ok := known[path]
		switch {
		case l.State == v1alpha1.PathUnknown:
			if ok {
				next[path] = before
			}
		case ok && l.OuterFragments > before.count:
			next[path] = fragmentCount{l.OuterFragments, now}
		default:
			next[path] = fragmentCount{l.OuterFragments, before.rose}
		}
	}
	return next
}

func (c fragmentCount) rising(now time.Time) bool {
	return !c.rose.IsZero() && now.Sub(c.rose) < risingFor
}

// PathOf names a measured path.
func PathOf(l agent.Path) Path {
	return Path{l.OwnGateway, l.ClusterIndex, l.ViaIndex, l.RemoteGateway}
}
