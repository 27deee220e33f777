package peering

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// everyone in access.transit.neighbors stands for all neighbors that an admin
// made: whom others introduce is let through by name only.
const everyone = "*"

// told is what a cluster has said in this life of the controller; the zero value
// says nothing.
type told struct {
	networks []channel.Network
	// reachables by identity; nil: not told.
	reachables map[v1alpha1.Identity]channel.Reachable
	offDirect  channel.OffDirect
}

// direct reports whether there are tunnels to a cluster: somebody wants them, or
// traffic is about to move off them.
func direct(fc *v1alpha1.ForeignCluster) bool {
	return fc.Spec.Direct() || !fc.Spec.MadeByAdmin() && introduced(fc, v1alpha1.IntroductionEnding)
}

func introduced(fc *v1alpha1.ForeignCluster, state v1alpha1.IntroductionState) bool {
	return slices.ContainsFunc(fc.Status.Introductions, func(i v1alpha1.IntroductionStatus) bool { return i.State == state })
}

// leaving reports whether an introduction made the tunnels to a cluster, and all
// that did are ending.
func leaving(fc *v1alpha1.ForeignCluster) bool {
	return !fc.Spec.MadeByAdmin() && introduced(fc, v1alpha1.IntroductionEnding) && !introduced(fc, v1alpha1.IntroductionAccepted)
}

// unrecorded reports whether a cluster is introduced of which no mode is known:
// of an object that is made anew the status is written second.
func unrecorded(fc *v1alpha1.ForeignCluster) bool {
	return fc.Spec.IsAccepted() && len(fc.Spec.IntroducedBy) > 0 && len(fc.Status.Introductions) == 0
}

// pathPolicy of a cluster: the strictest introduction wins, and one whose mode is
// not written yet may be that. Nothing is sent over a link that is ending, also
// when it is the other side alone that leaves it. One that itself only follows is
// not followed: both would wait for the other for ever.
func pathPolicy(fc *v1alpha1.ForeignCluster, said channel.OffDirect) v1alpha1.PathPolicy {
	required := unrecorded(fc) || slices.ContainsFunc(fc.Status.Introductions, func(i v1alpha1.IntroductionStatus) bool {
		return i.State == v1alpha1.IntroductionAccepted && i.Mode == v1alpha1.ModeRequire
	})
	switch {
	case required:
		return v1alpha1.PathDirectOnly
	case leaving(fc) || !fc.Spec.MadeByAdmin() && direct(fc) && said == channel.Leaving:
		return v1alpha1.PathHubOnly
	}
	return v1alpha1.PathAny
}

// offDirect is what a cluster is told of our side of the tunnels to it; placed
// says that our gateways do what its Neighbor says.
func offDirect(fc *v1alpha1.ForeignCluster, paths v1alpha1.PathPolicy, placed bool) channel.OffDirect {
	switch {
	case !direct(fc):
		return channel.Leaving
	case paths != v1alpha1.PathHubOnly || !placed:
		return ""
	case leaving(fc):
		return channel.Leaving
	}
	return channel.Following
}

// granted reports whether this cluster forwards between two others.
func granted(a, b *v1alpha1.ForeignCluster) bool {
	names := func(one, other *v1alpha1.ForeignCluster) bool {
		list := one.Spec.Access.Transit.Neighbors
		return slices.Contains(list, other.Name) || other.Spec.MadeByAdmin() && slices.Contains(list, everyone)
	}
	return names(a, b) || names(b, a)
}

// isHub reports whether this cluster reaches others through a neighbor. What is
// itself known through a hub is none: one hub at most on a path.
func isHub(fc *v1alpha1.ForeignCluster) bool {
	return fc.DeletionTimestamp.IsZero() && fc.Spec.Access.Transit.UseAsHub && fc.Spec.Direct()
}

func hasLeft(fc *v1alpha1.ForeignCluster) bool {
	c := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionChannelReady)
	return c != nil && c.Reason == v1alpha1.ReasonPeerLeft
}

// tokenOf returns the newest good record that is stored of a cluster, empty if
// there is none.
func tokenOf(fc *v1alpha1.ForeignCluster) string {
	switch {
	case fc.Status.Record != "":
		return fc.Status.Record
	case meta.IsStatusConditionTrue(fc.Status.Conditions, v1alpha1.ConditionRecordValid):
		return fc.Spec.Record
	}
	return ""
}

// introducer of an entry "introducer/connection" of spec.introducedBy.
func introducer(entry string) string {
	name, _, _ := strings.Cut(entry, "/")
	return name
}

func (s *snapshot) cluster(name string) *v1alpha1.ForeignCluster {
	for i := range s.clusters {
		if s.clusters[i].Name == name {
			return &s.clusters[i]
		}
	}
	return nil
}

// neighborOf returns the Neighbor of a ForeignCluster, nil if there is none.
func (s *snapshot) neighborOf(fc *v1alpha1.ForeignCluster) *v1alpha1.Neighbor {
	if n := find(s.neighbors, fc.Name); n != nil && n.Spec.Identity == fc.Spec.Identity {
		return n
	}
	return nil
}

// reaches reports whether a hub forwards to a cluster. What it has not told in
// this life of the controller stands as it was.
func (s *snapshot) reaches(hub, fc *v1alpha1.ForeignCluster) bool {
	if hub.Name == fc.Name || hub.Spec.Identity == fc.Spec.Identity || !fc.DeletionTimestamp.IsZero() || !isHub(hub) {
		return false
	}
	if reachables := s.told[hub.Name].reachables; reachables != nil {
		_, ok := reachables[fc.Spec.Identity]
		return ok
	}
	if slices.Contains(fc.Spec.ReachedThrough, hub.Name) {
		return true
	}
	there, here := s.neighborOf(hub), s.neighborOf(fc)
	return there != nil && here != nil && slices.ContainsFunc(there.Spec.Rows, func(row v1alpha1.Row) bool {
		return row.Side == v1alpha1.RowOurs && row.OriginIndex == here.Spec.ClusterIndex
	})
}

// hubsOf lists the hubs that forward to a cluster, by name.
func (s *snapshot) hubsOf(fc *v1alpha1.ForeignCluster) []*v1alpha1.ForeignCluster {
	var hubs []*v1alpha1.ForeignCluster
	for i := range s.clusters {
		if hub := &s.clusters[i]; s.reaches(hub, fc) {
			hubs = append(hubs, hub)
		}
	}
	slices.SortFunc(hubs, func(a, b *v1alpha1.ForeignCluster) int { return cmp.Compare(a.Name, b.Name) })
	return hubs
}

// exported returns the networks of a cluster as told in this life of the
// controller, nil if nothing was. Its own word wins over that of hubs, and what is
// stored of a neighbor does too.
func (s *snapshot) exported(fc *v1alpha1.ForeignCluster) []channel.Network {
	if own := s.told[fc.Name].networks; own != nil {
		return own
	}
	if n := s.neighborOf(fc); n != nil && direct(fc) && len(n.Spec.Networks) > 0 {
		return nil
	}
	for _, hub := range s.hubsOf(fc) {
		if r, ok := s.told[hub.Name].reachables[fc.Spec.Identity]; ok && len(r.Networks) > 0 {
			return r.Networks
		}
	}
	return nil
}

// origin is a cluster on the far side of another one, in local view.
type origin struct {
	Name     string
	Identity v1alpha1.Identity
	Index    int32
	Networks []v1alpha1.ViewNetwork
}

// origins returns the clusters of a list that have a Neighbor, by index, with the
// networks that both the Neighbor and what was told hold.
func (s *snapshot) origins(clusters []*v1alpha1.ForeignCluster) []origin {
	var out []origin
	for _, fc := range clusters {
		if n := s.neighborOf(fc); n != nil {
			out = append(out, origin{fc.Name, fc.Spec.Identity, n.Spec.ClusterIndex, among(n.Spec.Networks, s.exported(fc))})
		}
	}
	slices.SortFunc(out, func(a, b origin) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// among returns the views of these networks; of all, if the networks are nil.
func among(views []v1alpha1.ViewNetwork, networks []channel.Network) []v1alpha1.ViewNetwork {
	if networks == nil {
		return views
	}
	var out []v1alpha1.ViewNetwork
	for _, view := range views {
		if slices.ContainsFunc(networks, func(n channel.Network) bool {
			return n.Name == view.Name && n.Kind == view.Kind && n.CIDR.String() == string(view.Original)
		}) {
			out = append(out, view)
		}
	}
	return out
}

// behind lists the clusters that are reached through a hub, with the networks
// that it knows.
func (s *snapshot) behind(hub *v1alpha1.ForeignCluster) []origin {
	var clusters []*v1alpha1.ForeignCluster
	for i := range s.clusters {
		if fc := &s.clusters[i]; s.reaches(hub, fc) {
			clusters = append(clusters, fc)
		}
	}
	out := s.origins(clusters)
	if reachables := s.told[hub.Name].reachables; reachables != nil {
		for i := range out {
			if r := reachables[out[i].Identity]; len(r.Networks) > 0 {
				out[i].Networks = among(out[i].Networks, r.Networks)
			}
		}
	}
	return out
}
