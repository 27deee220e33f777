package agent

import (
	"time"

	measured "github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
)

// measurements is what the agent serves of the present.
func (a *agent) measurements() measured.Measurements {
	names := a.namesInForce()
	lanes, err := a.executor.Lanes()
	if err != nil {
		a.log.Warn("reading the lanes failed", "error", err)
	}
	return compose(a.node, &names, a.prober.Snapshot(), lanes, a.choice.get(), time.Now())
}

func compose(node string, names *plan.Names, seen probe.Snapshot, lanes []apply.LaneState, choice path.Choice, now time.Time) measured.Measurements {
	m := measured.Measurements{Node: node, Time: now}
	results, peers := resultsByPath(seen), peersByLink(names, lanes)
	for i := range names.Paths {
		n := &names.Paths[i]
		m.Paths = append(m.Paths, composePath(n, results[pathKey(n)], peers[n.Link], choice))
	}
	for _, n := range seen.Nodes {
		m.Nodes = append(m.Nodes, measured.Node{Name: n.Target.Node, FabricAddress: n.Target.Destination.String(), Measurement: n.Measurement})
	}
	for _, c := range names.Clusters {
		cluster := measured.Cluster{Cluster: c.Neighbor, ClusterIndex: c.Index}
		for _, id := range path.Unpack(choice.Choices[uint32(c.Index)]) {
			cluster.Gateways = append(cluster.Gateways, int32(id))
		}
		m.Clusters = append(m.Clusters, cluster)
	}
	return m
}

// composePath tells what is known of a path; peer is the far end of its link.
func composePath(n *plan.PathName, seen probe.PathResult, peer apply.PeerState, choice path.Choice) measured.Path {
	p := measured.Path{
		Cluster: n.Cluster, ClusterIndex: n.ClusterIndex, Via: n.Via, ViaIndex: n.ViaIndex, OwnGateway: n.OwnGateway, RemoteGateway: n.RemoteGateway,
		Measurement: seen.Measurement, OuterFragments: seen.OuterFragments, LargeLost: seen.LargeLost,
		Active: choice.Paths[uint32(n.ClusterIndex)] == uint32(n.Link), Reason: choice.Reasons[pathKey(n)],
		LastHandshake: peer.LastHandshake,
	}
	if p.State == "" {
		p.State = v1alpha1.PathUnknown
	}
	if peer.Endpoint.IsValid() {
		p.Endpoint = peer.Endpoint.String()
	}
	return p
}

// peersByLink are the far ends of this gateway's links as WireGuard sees them.
func peersByLink(names *plan.Names, lanes []apply.LaneState) map[uint16]apply.PeerState {
	byKey := map[[32]byte]apply.PeerState{}
	for _, lane := range lanes {
		for _, p := range lane.Peers {
			byKey[p.PublicKey] = p
		}
	}
	out := map[uint16]apply.PeerState{}
	for _, l := range names.Links {
		out[l.Link] = byKey[l.PublicKey]
	}
	return out
}
