package agent

import (
	"slices"
	"time"

	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
)

// targets are what the prober is to measure.
type targets struct {
	paths []probe.PathTarget
	nodes []probe.NodeTarget
}

// targetsOf says what to probe: a gateway its paths and every other node, a plain
// node its gateways. Hub paths are slow unless the choice says otherwise.
func targetsOf(node string, p *plan.Plan) targets {
	return targets{pathTargets(p), nodeTargets(node, &p.Names)}
}

// pathTargets are the paths that can be probed.
func pathTargets(p *plan.Plan) []probe.PathTarget {
	var out []probe.PathTarget
	for i := range p.Names.Paths {
		n := &p.Names.Paths[i]
		if !n.ProbeSource.IsValid() || !n.ProbeDestination.IsValid() {
			continue
		}
		out = append(out, probe.PathTarget{
			Link: n.Link, Device: n.Lane, Source: n.ProbeSource, Destination: n.ProbeDestination,
			MTU: pathMTU(p, n), Slow: !n.Direct(),
			ClusterIndex: n.ClusterIndex, Cluster: n.Cluster, Via: n.Via,
		})
	}
	return out
}

// withPace returns the targets with those slow paths watched closely that traffic
// takes or would take next.
func (t targets) withPace(choice path.Choice) targets {
	out := targets{slices.Clone(t.paths), t.nodes}
	for i := range out.paths {
		p := &out.paths[i]
		if choice.Paths[uint32(p.ClusterIndex)] == uint32(p.Link) || choice.Alternates[uint8(p.ClusterIndex)] == p.Link {
			p.Slow = false
		}
	}
	return out
}

func nodeTargets(node string, names *plan.Names) []probe.NodeTarget {
	var nodes []probe.NodeTarget
	for _, self := range names.Nodes {
		if self.Name != node {
			continue
		}
		for _, n := range names.Nodes {
			if n.Name == node || n.GatewayID == 0 && names.Gateway == 0 {
				continue
			}
			nodes = append(nodes, probe.NodeTarget{
				Node: n.Name, GatewayID: n.GatewayID, Device: plan.OverlayDevice,
				Source: self.FabricAddress, Destination: n.FabricAddress,
				Slow: n.GatewayID == 0, // nothing is decided by it
			})
		}
	}
	return nodes
}

// pathMTU is the size of packets that a path has to carry: the least of its
// lane's MTU and of what all paths to the cluster are planned for; 0 if the plan
// has neither.
func pathMTU(p *plan.Plan, n *plan.PathName) int {
	mtu := int(p.Maps.Clusters[uint32(n.ClusterIndex)].Mtu)
	for _, lane := range p.Lanes {
		if lane.Device == n.Lane && (mtu == 0 || lane.MTU < mtu) {
			mtu = lane.MTU
		}
	}
	return mtu
}

// pathInput puts together what a choice depends on.
func pathInput(names *plan.Names, seen probe.Snapshot, previous path.Choice, now time.Time) path.Input {
	in := path.Input{Now: now, Self: uint8(names.Gateway), Previous: previous}
	for _, c := range names.Clusters {
		in.Clusters = append(in.Clusters, uint8(c.Index))
		if c.Onward {
			in.Onward = append(in.Onward, uint8(c.Index))
		}
	}
	results := resultsByPath(seen)
	for i := range names.Paths {
		n := &names.Paths[i]
		r := results[pathKey(n)]
		in.Paths = append(in.Paths, path.Path{
			Cluster: uint8(n.ClusterIndex), Link: n.Link, Direct: n.Direct(), Permitted: n.Permitted, Probed: n.ProbeDestination.IsValid(),
			State: r.State, Since: r.Since, RTT: time.Duration(r.RTTMicroseconds) * time.Microsecond,
		})
	}
	nodes := map[string]probe.NodeResult{}
	for _, n := range seen.Nodes {
		nodes[n.Target.Node] = n
	}
	for _, n := range names.Nodes {
		if n.GatewayID == 0 {
			continue
		}
		result := nodes[n.Name]
		in.Gateways = append(in.Gateways, path.Gateway{ID: uint8(n.GatewayID), State: result.State, Reach: result.Reach})
	}
	return in
}

func pathKey(n *plan.PathName) path.Key {
	return path.Key{Cluster: uint8(n.ClusterIndex), Link: n.Link}
}

func resultsByPath(seen probe.Snapshot) map[path.Key]probe.PathResult {
	out := map[path.Key]probe.PathResult{}
	for _, r := range seen.Paths {
		out[path.Key{Cluster: uint8(r.Target.ClusterIndex), Link: r.Target.Link}] = r
	}
	return out
}
