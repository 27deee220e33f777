package services

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/measure"
	"github.com/weft-fabric/weft/controlplane/peering"
)

// Reach is whether packets get to a cluster.
type Reach int

const (
	// ReachUnknown changes nothing: nobody has measured.
	ReachUnknown Reach = iota
	ReachUp
	ReachDown
)

// settled is how long probes have to go unanswered before that counts: two looks
// at what the agents measure. A client would be refused for that long, where its
// packets are but sent again, if endpoints left for each moment of silence.
const settled = 2 * measure.Interval

// Reached reads it off a ForeignCluster. Down is what probes have found for a
// while, or the cluster has said; all else that keeps it from being connected is
// no finding of that kind: an agent that cannot be read or has just begun, a
// missing channel.
func Reached(fc *v1alpha1.ForeignCluster, now time.Time) Reach {
	c := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConnected)
	switch {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		return ReachUp
	case c.Status == metav1.ConditionFalse && c.Reason == peering.ReasonPeerLeft,
		isDown(c) && settling(fc, now) == 0:
		return ReachDown
	}
	return ReachUnknown
}

func isDown(c *metav1.Condition) bool {
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == peering.ReasonLinksDown
}

// settling is how long it takes until unanswered probes count, 0 if they do, or if
// there are none.
func settling(fc *v1alpha1.ForeignCluster, now time.Time) time.Duration {
	c := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionConnected)
	if !isDown(c) {
		return 0
	}
	since := now.Sub(c.LastTransitionTime.Time)
	if since < -settled { // the clock was set back
		return 0
	}
	return max(0, settled-since)
}

// counted lists the foreign clusters that services are exchanged with, by name: of
// an identity the oldest object, as in package peering, also before a younger one
// is marked as a duplicate. They are the cache's own, not to be changed.
func counted(ctx context.Context, reader client.Reader) ([]v1alpha1.ForeignCluster, error) {
	var list v1alpha1.ForeignClusterList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list foreign clusters: %w", err)
	}
	var out []v1alpha1.ForeignCluster
	seen := map[v1alpha1.Identity]bool{}
	items := slices.Clone(list.Items)
	byName := func(a, b v1alpha1.ForeignCluster) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(items, func(a, b v1alpha1.ForeignCluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), byName(a, b))
	})
	for i := range items {
		fc := &items[i]
		if !counts(fc) || seen[fc.Spec.Identity] {
			continue
		}
		seen[fc.Spec.Identity] = true
		out = append(out, *fc)
	}
	slices.SortFunc(out, byName)
	return out, nil
}

// counts reports whether an object stands for its cluster.
func counts(fc *v1alpha1.ForeignCluster) bool {
	own := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionRecordValid)
	return fc.DeletionTimestamp.IsZero() && fc.Spec.IsAccepted() &&
		!meta.IsStatusConditionTrue(fc.Status.Conditions, peering.ConditionDuplicate) &&
		(own == nil || own.Reason != v1alpha1.ReasonOwnIdentity)
}

// clusterOf names a foreign cluster; self is this one's own ID, whose name is
// taken.
func clusterOf(fc *v1alpha1.ForeignCluster, self v1alpha1.ClusterID) Cluster {
	c := Cluster{Identity: fc.Spec.Identity, ID: fc.Status.ClusterID, Name: fc.Name}
	if c.Name == string(self) {
		c.Name += "-" + string(c.Identity)[:8]
	}
	return c
}

// fabric returns the FabricConfig once it says what the cluster exports, else nil.
func fabric(ctx context.Context, reader client.Reader) (*v1alpha1.FabricConfig, error) {
	var config v1alpha1.FabricConfig
	err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.FabricConfigName}, &config)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read fabric config %s: %w", v1alpha1.FabricConfigName, err)
	}
	if err != nil || len(config.Status.Networks) == 0 {
		return nil, nil
	}
	return &config, nil
}
