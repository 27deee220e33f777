package peering

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// maxName is how long the local name of a cluster may be.
const maxName = 40

// LocalName of a ForeignCluster that the controller makes: the cluster's ID, or,
// if that is taken, the ID and the first 8 characters of the identity, or as many
// more as are free. A cluster chooses its ID, so a name that a grant mentions is
// not given: the admin may have meant another.
func LocalName(id v1alpha1.ClusterID, self v1alpha1.Identity, clusters []v1alpha1.ForeignCluster) string {
	name := string(id)
	for length := 8; isTaken(name, self, clusters) && length < maxName; length += 8 {
		suffix := "-" + string(self)[:length]
		name = strings.TrimRight(string(id)[:min(len(id), maxName-len(suffix))], "-") + suffix
	}
	return name
}

func isTaken(name string, self v1alpha1.Identity, clusters []v1alpha1.ForeignCluster) bool {
	return slices.ContainsFunc(clusters, func(fc v1alpha1.ForeignCluster) bool {
		return fc.Name == name && fc.Spec.Identity != self || slices.Contains(fc.Spec.Access.Transit.Neighbors, name)
	})
}

// known returns the ForeignCluster of an identity: an admin's before one that the
// controller made, else the oldest. Nil: there is none.
func (s *snapshot) known(id v1alpha1.Identity) *v1alpha1.ForeignCluster {
	var best *v1alpha1.ForeignCluster
	for i := range s.clusters {
		fc := &s.clusters[i]
		if fc.Spec.Identity != id {
			continue
		}
		admins := fc.Spec.MadeByAdmin()
		if best == nil || admins && !best.Spec.MadeByAdmin() || admins == best.Spec.MadeByAdmin() && older(fc, best) {
			best = fc
		}
	}
	return best
}

// podsOf returns the pods access of a cluster. That of one which the controller
// made follows access.introduced of those who made us know it: the most that any
// of them grants.
func (s *snapshot) podsOf(fc *v1alpha1.ForeignCluster) v1alpha1.PodAccess {
	if fc.Spec.MadeByAdmin() {
		return fc.Spec.Access.Pods
	}
	sponsors := slices.Clone(fc.Spec.ReachedThrough)
	if fc.Spec.IsAccepted() {
		for _, entry := range fc.Spec.IntroducedBy {
			sponsors = append(sponsors, introducer(entry))
		}
	}
	for _, name := range sponsors {
		sponsor := s.cluster(name)
		if sponsor != nil && sponsor.DeletionTimestamp.IsZero() && sponsor.Spec.Access.Introduced == v1alpha1.PodAccessAll {
			return v1alpha1.PodAccessAll
		}
	}
	return v1alpha1.PodAccessNone
}

// tended returns what the spec of a ForeignCluster that the controller made
// should be, nil if nobody makes us know the cluster any more, or an admin does.
func (s *snapshot) tended(fc *v1alpha1.ForeignCluster) *v1alpha1.ForeignClusterSpec {
	spec := fc.Spec.DeepCopy()
	spec.ReachedThrough = nil
	for _, name := range fc.Spec.ReachedThrough {
		if hub := s.cluster(name); hub != nil && s.reaches(hub, fc) {
			spec.ReachedThrough = append(spec.ReachedThrough, name)
		}
	}
	if spec.MadeByAdmin() {
		return nil // both lists are empty
	}
	if best := s.known(fc.Spec.Identity); best != nil && best.Spec.MadeByAdmin() && counts(best) {
		return nil
	}
	after := *fc
	after.Spec = *spec
	spec.Access.Pods = s.podsOf(&after)
	return spec
}

// tend keeps a ForeignCluster that the controller made as it should be. True: it
// is deleted.
func (r *Reconciler) tend(ctx context.Context, fc *v1alpha1.ForeignCluster, s *snapshot) (bool, error) {
	if fc.Spec.MadeByAdmin() {
		return false, nil
	}
	spec := s.tended(fc)
	if spec == nil {
		err := r.Client.Delete(ctx, fc, client.Preconditions{UID: &fc.UID, ResourceVersion: &fc.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return true, fmt.Errorf("delete foreign cluster %s, which no hub leads to any more: %w", fc.Name, err)
		}
		return true, nil
	}
	if slices.Equal(spec.ReachedThrough, fc.Spec.ReachedThrough) && spec.Access.Pods == fc.Spec.Access.Pods {
		return false, nil
	}
	fc.Spec = *spec
	if err := r.Client.Update(ctx, fc); err != nil {
		return false, fmt.Errorf("update foreign cluster %s to what its hubs and introducers grant: %w", fc.Name, err)
	}
	return false, nil
}

// discovered returns the ForeignClusters that are missing for what a hub tells,
// and those (changed) that it leads to as well.
func (s *snapshot) discovered(hub *v1alpha1.ForeignCluster, self v1alpha1.Identity) (missing, changed []*v1alpha1.ForeignCluster) {
	if !isHub(hub) {
		return nil, nil
	}
	names := slices.Clone(s.clusters)
	reachables := s.told[hub.Name].reachables
	for _, id := range slices.Sorted(maps.Keys(reachables)) {
		if id == self || id == hub.Spec.Identity {
			continue
		}
		fc := s.known(id)
		switch {
		case fc == nil:
			fc = s.behindObject(hub, id, reachables[id].Record, names)
			if fc == nil {
				continue
			}
			names = append(names, *fc)
			missing = append(missing, fc)
		case !fc.Spec.MadeByAdmin() && fc.DeletionTimestamp.IsZero() && !slices.Contains(fc.Spec.ReachedThrough, hub.Name):
			fc = fc.DeepCopy()
			fc.Spec.ReachedThrough = append(fc.Spec.ReachedThrough, hub.Name)
			fc.Spec.Access.Pods = s.podsOf(fc)
			changed = append(changed, fc)
		}
	}
	return missing, changed
}

func (s *snapshot) behindObject(hub *v1alpha1.ForeignCluster, id v1alpha1.Identity, token string, taken []v1alpha1.ForeignCluster) *v1alpha1.ForeignCluster {
	record, err := identity.ParseRecord(token)
	if err != nil {
		return nil
	}
	fc := &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: LocalName(record.ClusterID, id, taken)},
		Spec: v1alpha1.ForeignClusterSpec{
			Identity: id, Record: token, ReachedThrough: []string{hub.Name},
			Access: v1alpha1.AccessSpec{Introductions: v1alpha1.IntroductionDeny, Introduced: v1alpha1.PodAccessNone},
		},
	}
	fc.Spec.Access.Pods = s.podsOf(fc)
	return fc
}

// discover makes the ForeignClusters that a hub leads to.
func (r *Reconciler) discover(ctx context.Context, hub *v1alpha1.ForeignCluster, s *snapshot, m *memory) error {
	if s.config == nil {
		return nil // also while it is being uninstalled
	}
	missing, changed := s.discovered(hub, r.Self)
	var failures []error // one holds up no other
	for _, fc := range changed {
		if err := r.Client.Update(ctx, fc); err != nil {
			failures = append(failures, fmt.Errorf("add hub %s to foreign cluster %s: %w", hub.Name, fc.Name, err))
		}
	}
	for _, fc := range missing {
		if !m.pace.makes.AllowN(r.Now(), 1) {
			m.soon(makeEvery)
			break
		}
		if err := r.Client.Create(ctx, fc); err != nil {
			failures = append(failures, fmt.Errorf("create foreign cluster %s, which is reached through %s: %w", fc.Name, hub.Name, err))
		}
	}
	return errors.Join(failures...)
}
