package peering

import (
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/fabric"
)

// carries reports whether this cluster may be a hub for another one: they are
// neighbors, and stay it.
func (s *snapshot) carries(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp.IsZero() && fc.Spec.Direct() && !hasLeft(fc) &&
		pathPolicy(fc, s.told[fc.Name].offDirect) != v1alpha1.PathHubOnly
}

// forwarded lists the clusters that one exchanges traffic with through this
// cluster.
func (s *snapshot) forwarded(fc *v1alpha1.ForeignCluster) []origin {
	if !s.carries(fc) {
		return nil
	}
	var clusters []*v1alpha1.ForeignCluster
	for i := range s.clusters {
		other := &s.clusters[i]
		if other.Spec.Identity != fc.Spec.Identity && granted(fc, other) && s.carries(other) {
			clusters = append(clusters, other)
		}
	}
	return s.origins(clusters)
}

// transitOf returns the cluster indexes of NeighborSpec.transit.
func transitOf(forwarded []origin) []int32 {
	var indexes []int32
	for _, o := range forwarded {
		indexes = append(indexes, o.Index)
	}
	return indexes
}

// reachablesFor is what a neighbor is told of the clusters behind this one. It is
// never nil: which neighbors there are is known from the API server.
func (s *snapshot) reachablesFor(fc *v1alpha1.ForeignCluster) []channel.Reachable {
	out := []channel.Reachable{}
	for _, o := range s.forwarded(fc) {
		other := s.cluster(o.Name)
		record := tokenOf(other)
		if record == "" || len(o.Networks) == 0 || len(out) == channel.MaxReachables {
			continue
		}
		var mtu least
		mtu.note(fabric.MTU(s.nodes))
		mtu.note(s.neighborOf(other).Spec.MTU)
		out = append(out, channel.Reachable{Record: record, Networks: networksOf(o.Networks), MTU: int32(mtu)})
	}
	return out
}

// least is the smallest of what was noted above 0, 0 if nothing was.
type least int32

func (l *least) note(n int32) {
	if n > 0 && (*l == 0 || n < int32(*l)) {
		*l = least(n)
	}
}

// mtuOf returns what every path to a cluster carries as far as it was told. While
// a path's end has not told it yet, what was known before stands as a bound.
func (s *snapshot) mtuOf(fc *v1alpha1.ForeignCluster, said int32) int32 {
	var mtu least
	mtu.note(said)
	complete := said > 0
	for _, hub := range s.hubsOf(fc) {
		reachables := s.told[hub.Name].reachables
		complete = complete && reachables != nil
		mtu.note(reachables[fc.Spec.Identity].MTU)
	}
	if n := s.neighborOf(fc); n != nil && !complete {
		mtu.note(n.Spec.MTU)
	}
	for _, i := range fc.Status.Introductions {
		if i.State == v1alpha1.IntroductionAccepted {
			mtu.note(i.MTU)
		}
	}
	return int32(mtu)
}
