package peering

import (
	"reflect"
	"slices"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// listen takes what the peer says now, as often as it may change.
func (r *Reconciler) listen(fc *v1alpha1.ForeignCluster, m *memory) {
	said := r.Channels.Status(fc.Spec.Identity).Said
	said.Introductions, said.Reports = nil, nil // not followed here
	taken, wait := m.pace.changes.Take(said, r.Now())
	m.again = 0
	m.soon(wait)
	if !reflect.DeepEqual(taken.Reachables, m.said.Reachables) {
		m.told.reachables = byIdentity(taken.Reachables)
	}
	m.said, m.told.networks, m.told.offDirect = taken, taken.Networks, taken.OffDirect
}

// byIdentity returns the reachables by the identity of their record; nil for nil.
func byIdentity(reachables []channel.Reachable) map[v1alpha1.Identity]channel.Reachable {
	if reachables == nil {
		return nil
	}
	out := map[v1alpha1.Identity]channel.Reachable{}
	for _, reachable := range reachables {
		if record, err := identity.ParseRecord(reachable.Record); err == nil {
			out[record.Identity()] = reachable
		}
	}
	return out
}

// heard returns what the turns of the ForeignClusters have heard.
func (r *Reconciler) heard(clusters []v1alpha1.ForeignCluster) map[string]told {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]told{}
	for i := range clusters {
		if m := r.memory[clusters[i].Name]; m != nil && m.uid == clusters[i].UID {
			out[clusters[i].Name] = m.told
		}
	}
	return out
}

// recordsOf lists the records of a cluster that came over channels: its own, and
// those that its hubs tell.
func (s *snapshot) recordsOf(fc *v1alpha1.ForeignCluster, said string) []string {
	records := []string{said}
	for _, hub := range s.hubsOf(fc) {
		if r, ok := s.told[hub.Name].reachables[fc.Spec.Identity]; ok {
			records = append(records, r.Record)
		}
	}
	return records
}

// wakeRelated asks for turns of the others that what a cluster has said anew
// concerns.
func (r *Reconciler) wakeRelated(s *snapshot, fc *v1alpha1.ForeignCluster, before, after told) {
	networks := !reflect.DeepEqual(before.networks, after.networks) || before.offDirect != after.offDirect
	for i := range s.clusters {
		other := &s.clusters[i]
		if other.Name == fc.Name {
			continue
		}
		old, wasBehind := before.reachables[other.Spec.Identity]
		now, isBehind := after.reachables[other.Spec.Identity]
		behind := slices.Contains(other.Spec.ReachedThrough, fc.Name) && (before.reachables == nil) != (after.reachables == nil)
		if behind || wasBehind != isBehind || !reflect.DeepEqual(old, now) ||
			networks && (granted(fc, other) || s.reaches(other, fc)) {
			r.Again(other.Name)
		}
	}
}

// settle keeps whether a cluster's tunnels are out of use.
func (r *Reconciler) settle(fc *v1alpha1.ForeignCluster, m *memory, neighbor *v1alpha1.Neighbor, placed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.offDirect = offDirect(fc, neighbor.Spec.Paths, placed)
}

// OffDirect reports whether nothing is sent over tunnels to a ForeignCluster's
// cluster: NeighborSpec.paths HubOnly is in place on all gateways, or no tunnel
// leads to it. False for an unknown one.
func (r *Reconciler) OffDirect(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memory[name]
	return m != nil && m.offDirect != ""
}
