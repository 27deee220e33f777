package peering

import (
	"slices"
	"strings"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/measure"
)

// ways is what leads to a cluster: its own links, and those of hubs.
type ways struct {
	name  string
	index int32
	// direct: tunnels lead to it.
	direct bool
	policy v1alpha1.PathPolicy
	// hubs that forward to it, and of them those whose links have rows for it.
	hubs, open []string
	// ready: over one way at least there are rows of both ends, without which there
	// are no probes: what was read is then from before.
	ready bool
}

// waysTo returns what leads to a cluster that has a Neighbor.
func (s *snapshot) waysTo(fc *v1alpha1.ForeignCluster) ways {
	w := ways{name: fc.Name, direct: direct(fc)}
	n := s.neighborOf(fc)
	if n == nil {
		return w
	}
	w.index, w.policy = n.Spec.ClusterIndex, n.Spec.Paths
	w.ready = bothSides(n.Spec.Rows, w.index)
	for _, hub := range s.hubsOf(fc) {
		w.hubs = append(w.hubs, hub.Name)
		there := s.neighborOf(hub)
		if there == nil {
			continue
		}
		if bothSides(there.Spec.Rows, w.index) {
			w.ready = true
		}
		if slices.ContainsFunc(there.Spec.Rows, func(row v1alpha1.Row) bool { return ours(row, w.index) }) {
			w.open = append(w.open, hub.Name)
		}
	}
	return w
}

func ours(row v1alpha1.Row, origin int32) bool {
	return row.Side == v1alpha1.RowOurs && row.OriginIndex == origin
}

// bothSides reports whether packets can cross a link both ways: rows that we chose
// for a cluster's networks, and rows that the far end chose for ours.
func bothSides(rows []v1alpha1.Row, origin int32) bool {
	return slices.ContainsFunc(rows, func(row v1alpha1.Row) bool { return ours(row, origin) }) &&
		slices.ContainsFunc(rows, func(row v1alpha1.Row) bool { return row.Side == v1alpha1.RowTheirs && row.OriginIndex == 0 })
}

// through names the hubs, for a sentence.
func (w *ways) through() string {
	if len(w.hubs) == 0 {
		return "a hub"
	}
	return strings.Join(w.hubs, ", ")
}

// paths to the cluster as measured.
func (w *ways) paths(view measure.View) []agent.Path {
	var out []agent.Path
	for _, p := range view.Paths {
		if p.ClusterIndex == w.index && p.Cluster == w.name {
			out = append(out, p)
		}
	}
	return out
}

// tally counts paths of one kind.
type tally struct {
	up, all int
	// probing: no probe over any of them has been answered yet.
	probing bool
	// active: traffic takes one of them, which is up.
	active bool
	// best round-trip time in microseconds of those that are up, and its hub.
	best int64
	via  string
}

// count tallies the direct paths, and those through hubs.
func count(paths []agent.Path) (links, hubs tally) {
	links.probing, hubs.probing = true, true
	for _, p := range paths {
		t := &hubs
		if p.Direct() {
			t = &links
		}
		t.all++
		t.probing = t.probing && p.State == v1alpha1.PathUnknown
		if p.State != v1alpha1.PathUp {
			continue
		}
		t.up++
		better := p.Active && !t.active || p.Active == t.active && (t.best == 0 || p.RTTMicroseconds < t.best)
		if better {
			t.best, t.via = p.RTTMicroseconds, p.Via
		}
		t.active = t.active || p.Active
	}
	return links, hubs
}
