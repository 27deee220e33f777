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
	return compose(a.node, &names, a.prober.Snapshot(), lanes, a.words.get(), time.Now())
}

func compose(node string, names *plan.Names, seen probe.Snapshot, lanes []apply.LaneState, w plan.Words, now time.Time) measured.Measurements {
	m := measured.Measurements{Node: node, Time: now}
	results := map[uint16]probe.LinkResult{}
	for _, l := range seen.Links {
		results[l.Target.Link] = l
	}
	peers := peersByKey(lanes)
	for _, l := range names.Links {
		result, peer := results[l.Link], peers[l.PublicKey]
		link := measured.Path{
			Cluster: l.Neighbor, ClusterIndex: l.ClusterIndex, Via: l.Neighbor, ViaIndex: l.ClusterIndex, OwnGateway: l.OwnGateway, RemoteGateway: l.RemoteGateway,
			Measurement: result.Measurement, LastHandshake: peer.LastHandshake, OuterFragments: result.OuterFragments,
			LargeLost: result.LargeLost,
			Active:    w.Paths[uint32(l.ClusterIndex)] == uint32(l.Link),
		}
		if link.State == "" {
			link.State = v1alpha1.PathUnknown
		}
		if peer.Endpoint.IsValid() {
			link.Endpoint = peer.Endpoint.String()
		}
		m.Paths = append(m.Paths, link)
	}
	for _, n := range seen.Nodes {
		m.Nodes = append(m.Nodes, measured.Node{Name: n.Target.Node, FabricAddress: n.Target.Destination.String(), Measurement: n.Measurement})
	}
	for _, c := range names.Clusters {
		cluster := measured.Cluster{Cluster: c.Neighbor, ClusterIndex: c.Index}
		for _, id := range path.Unpack(w.Choices[uint32(c.Index)]) {
			cluster.Gateways = append(cluster.Gateways, int32(id))
		}
		m.Clusters = append(m.Clusters, cluster)
	}
	return m
}

func peersByKey(lanes []apply.LaneState) map[[32]byte]apply.PeerState {
	out := map[[32]byte]apply.PeerState{}
	for _, lane := range lanes {
		for _, p := range lane.Peers {
			out[p.PublicKey] = p
		}
	}
	return out
}
