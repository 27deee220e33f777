package agent

import (
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
)

// targets says what to probe: a gateway its links and every other node, a plain
// node its gateways.
func targets(node string, p *plan.Plan) ([]probe.LinkTarget, []probe.NodeTarget) {
	names := &p.Names
	var links []probe.LinkTarget
	for _, l := range names.Links {
		if !l.ProbeSource.IsValid() || !l.ProbeDestination.IsValid() {
			continue
		}
		links = append(links, probe.LinkTarget{
			Link: l.Link, Device: l.Lane, Source: l.ProbeSource, Destination: l.ProbeDestination,
			MTU:      linkMTU(p, l),
			Neighbor: l.Neighbor, ClusterIndex: l.ClusterIndex, OwnGateway: l.OwnGateway, RemoteGateway: l.RemoteGateway,
		})
	}
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
	return links, nodes
}

// linkMTU is the size of packets that a link has to carry: the least of its
// lane's MTU and of what the whole path to the neighbor is planned for; 0 if the
// plan has neither.
func linkMTU(p *plan.Plan, l plan.LinkName) int {
	mtu := int(p.Maps.Clusters[uint32(l.ClusterIndex)].Mtu)
	for _, lane := range p.Lanes {
		if lane.Device == l.Lane && (mtu == 0 || lane.MTU < mtu) {
			mtu = lane.MTU
		}
	}
	return mtu
}

// pathInput puts together what a choice depends on.
func pathInput(names *plan.Names, seen probe.Snapshot, previous plan.Words) path.Input {
	in := path.Input{Self: uint8(names.Gateway), Previous: previous}
	for _, c := range names.Clusters {
		in.Clusters = append(in.Clusters, uint8(c.Index))
	}
	links := map[uint16]v1alpha1.PathState{}
	for _, l := range seen.Links {
		links[l.Target.Link] = l.State
	}
	for _, l := range names.Links {
		in.Links = append(in.Links, path.Link{ID: l.Link, Cluster: uint8(l.ClusterIndex), State: links[l.Link]})
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
