package agent

import (
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
)

// leave takes traffic off the paths that the plan takes away or forbids, before
// it does: what is sent afterwards over a path whose rows are gone is lost, and
// what policy forbids ends now, however long the plan takes to apply.
func (a *agent) leave(p *plan.Plan) error {
	seen := a.prober.Snapshot()
	a.mu.Lock()
	paths, some := withoutLeft(a.names.Paths, p.Names.Paths, seen)
	a.names.Paths = paths
	a.mu.Unlock()
	if !some {
		return nil
	}
	return a.choose()
}

// withoutLeft returns the paths in force with those forbidden that traffic has to
// leave before the next ones are in force, and whether there are any. A hub that
// policy closes is left whatever that costs. A path that merely ends carries
// traffic until then, unless another one does already.
func withoutLeft(current, next []plan.PathName, seen probe.Snapshot) ([]plan.PathName, bool) {
	after := map[way]plan.PathName{}
	for _, n := range next {
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
	some := false
	for _, n := range current {
		then, stays := after[wayOf(n)]
		closed := stays && !then.Permitted && !then.Direct()
		if n.Permitted && (closed || !then.Permitted && another[n.ClusterIndex]) {
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
