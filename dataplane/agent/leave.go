package agent

import (
	"fmt"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
)

// leave takes traffic off the paths that the plan takes away or forbids, before
// it does: what is sent afterwards over a path whose rows are gone is lost, and
// what policy forbids ends now, however long the plan takes to apply.
func (a *agent) leave(p *plan.Plan) error {
	if names := a.namesInForce(); len(names.Nodes) == 0 {
		return a.leaveClosed(&p.Names)
	}
	seen := a.prober.Snapshot()
	a.mu.Lock()
	paths, some := withoutLeft(a.names.Paths, &p.Names, seen)
	a.names.Paths = paths
	a.mu.Unlock()
	if !some {
		return nil
	}
	return a.choose()
}

// leaveClosed takes traffic off hubs that policy has closed while no agent ran,
// before the first plan of this one. It goes over a direct link that is there
// already, or nowhere.
func (a *agent) leaveClosed(next *plan.Names) error {
	a.choice.mu.Lock()
	defer a.choice.mu.Unlock()
	words, err := a.executor.Words()
	if err != nil {
		return fmt.Errorf("read words of an earlier agent: %w", err)
	}
	leadsTo := map[uint32]uint8{}
	for key, link := range a.executor.LinkIDs() {
		leadsTo[uint32(link)] = key.Cluster
	}
	some := false
	for cluster := range directOnly(next) {
		link := words.Paths[uint32(cluster)]
		if link == 0 || leadsTo[link] == uint8(cluster) {
			continue
		}
		delete(words.Paths, uint32(cluster))
		some = true
		i := slices.IndexFunc(next.Paths, func(n plan.PathName) bool { return n.ClusterIndex == cluster && n.Direct() })
		if i >= 0 {
			words.Paths[uint32(cluster)] = uint32(next.Paths[i].Link)
		}
	}
	if !some {
		return nil
	}
	if err := a.executor.SetWords(words); err != nil {
		return fmt.Errorf("leave hubs that policy has closed: %w", err)
	}
	return nil
}

// directOnly are the indexes of the clusters whose traffic no hub may carry.
func directOnly(names *plan.Names) map[int32]bool {
	out := map[int32]bool{}
	for _, c := range names.Clusters {
		if c.DirectOnly {
			out[c.Index] = true
		}
	}
	return out
}

// withoutLeft returns the paths in force with those forbidden that traffic has to
// leave before the next ones are in force, and whether there are any. A hub that
// policy closes is left whatever that costs. A path that merely ends carries
// traffic until then, unless another one does already.
func withoutLeft(current []plan.PathName, next *plan.Names, seen probe.Snapshot) ([]plan.PathName, bool) {
	after := map[way]plan.PathName{}
	for _, n := range next.Paths {
		after[wayOf(n)] = n
	}
	results := resultsByPath(seen)
	another := map[int32]bool{} // clusters to which a path that stays is up
	for _, n := range current {
		if n.Permitted && after[wayOf(n)].Permitted && results[pathKey(&n)].State == v1alpha1.PathUp {
			another[n.ClusterIndex] = true
		}
	}
	var paths []plan.PathName
	some, closed := false, directOnly(next)
	for _, n := range current {
		forbidden := !n.Direct() && closed[n.ClusterIndex]
		if n.Permitted && (forbidden || !after[wayOf(n)].Permitted && another[n.ClusterIndex]) {
			n.Permitted, some = false, true
		}
		paths = append(paths, n)
	}
	return paths, some
}

// way identifies a path from one plan to the next. The number of a link alone
// does not say that it is the same link.
type way struct {
	key path.Key
	via plan.LinkKey
}

func wayOf(n plan.PathName) way {
	return way{pathKey(&n), plan.LinkKey{Cluster: uint8(n.ViaIndex), RemoteGateway: uint8(n.RemoteGateway)}}
}
