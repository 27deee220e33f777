package introduction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// maxOutgoing is how many clusters one provider is introduced to; it takes no
// longer list.
const maxOutgoing = channel.MaxIntroductions

// pair names two clusters in no order.
type pair struct{ low, high string }

func pairOf(c *v1alpha1.ForeignClusterConnection) pair {
	a, b := c.Spec.ForeignClusterA, c.Spec.ForeignClusterB
	return pair{min(a, b), max(a, b)}
}

// firsts returns the connection that counts for each pair, the oldest: (A,B) and
// (B,A) are one connection.
func firsts(connections []v1alpha1.ForeignClusterConnection) map[pair]*v1alpha1.ForeignClusterConnection {
	out := map[pair]*v1alpha1.ForeignClusterConnection{}
	for i := range connections {
		c := &connections[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		if have := out[pairOf(c)]; have == nil || older(c, have) < 0 {
			out[pairOf(c)] = c
		}
	}
	return out
}

// duplicateOf returns the name of the connection that counts in place of c, empty
// if c does.
func duplicateOf(c *v1alpha1.ForeignClusterConnection, all []v1alpha1.ForeignClusterConnection) string {
	if first := firsts(all)[pairOf(c)]; first != nil && first.UID != c.UID && older(first, c) < 0 {
		return first.Name
	}
	return ""
}

// unfit says in one sentence why a cluster cannot be introduced to anybody,
// empty if it can. The record is the provider's to judge.
func unfit(name string, fc *v1alpha1.ForeignCluster) string {
	switch {
	case fc == nil:
		return fmt.Sprintf("there is no ForeignCluster %s here: peer with it (weftctl peer), or delete this connection and name another cluster", name)
	case !fc.DeletionTimestamp.IsZero():
		return fmt.Sprintf("ForeignCluster %s is being deleted: peer with it again (weftctl peer), or delete this connection", name)
	case isDuplicate(fc):
		return fmt.Sprintf("ForeignCluster %s has the identity of another, older one: name that one instead", name)
	case !fc.Spec.Direct():
		return fmt.Sprintf("this cluster is not peered with %s itself, but knows it through others: peer with it (weftctl peer)", name)
	}
	return ""
}

// outgoing returns what each provider is told. A connection counts once it has
// its finalizer, so that its deletion is noticed.
func outgoing(connections []v1alpha1.ForeignClusterConnection, clusters []v1alpha1.ForeignCluster) map[v1alpha1.Identity][]channel.Introduction {
	named := map[string]*v1alpha1.ForeignCluster{}
	out := map[v1alpha1.Identity][]channel.Introduction{}
	for i := range clusters {
		named[clusters[i].Name] = &clusters[i]
		out[clusters[i].Spec.Identity] = []channel.Introduction{}
	}
	counting := slices.SortedFunc(maps.Values(firsts(connections)), func(a, b *v1alpha1.ForeignClusterConnection) int { return older(a, b) })
	for _, c := range counting {
		a, b := named[c.Spec.ForeignClusterA], named[c.Spec.ForeignClusterB]
		if c.Spec.Mode == v1alpha1.ModeDisabled || !slices.Contains(c.Finalizers, v1alpha1.Finalizer) ||
			unfit(c.Spec.ForeignClusterA, a) != "" || unfit(c.Spec.ForeignClusterB, b) != "" || a.Spec.Identity == b.Spec.Identity {
			continue
		}
		if len(out[a.Spec.Identity]) == maxOutgoing || len(out[b.Spec.Identity]) == maxOutgoing {
			continue // its status says that no answer comes
		}
		out[a.Spec.Identity] = append(out[a.Spec.Identity], introductionOf(c, b))
		out[b.Spec.Identity] = append(out[b.Spec.Identity], introductionOf(c, a))
	}
	for _, list := range out {
		slices.SortFunc(list, func(x, y channel.Introduction) int { return cmp.Compare(x.Connection, y.Connection) })
	}
	return out
}

func introductionOf(c *v1alpha1.ForeignClusterConnection, other *v1alpha1.ForeignCluster) channel.Introduction {
	in := channel.Introduction{
		Connection: c.Name, UID: string(c.UID), Record: recordOf(other),
		Mode: modeOf(c), MTU: c.Spec.Networking.MTU,
	}
	if c.Spec.Lease != nil {
		in.Lease = c.Spec.Lease.Duration
	}
	return in
}

func modeOf(c *v1alpha1.ForeignClusterConnection) v1alpha1.ConnectionMode {
	return cmp.Or(c.Spec.Mode, v1alpha1.ModePrefer)
}

// wasConnected reports whether the link has been up since the connection was
// last asked for.
func wasConnected(c *v1alpha1.ForeignClusterConnection) bool {
	return c.Status.Phase == v1alpha1.PhaseConnected || c.Status.Phase == v1alpha1.PhaseDegraded
}

// sinceOf returns when the phase began, given the one that is true now.
func sinceOf(c *v1alpha1.ForeignClusterConnection, phase v1alpha1.ConnectionPhase, now metav1.Time) *metav1.Time {
	if c.Status.Phase == phase && c.Status.Since != nil {
		return c.Status.Since
	}
	now = metav1.NewTime(now.UTC().Truncate(time.Second))
	return &now
}
