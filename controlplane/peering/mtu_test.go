package peering

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
	"github.com/weft-fabric/weft/controlplane/measure"
)

// MTUSound names the links on which packets of full size do not cross whole,
// their cause and their remedy, and only those of this neighbor.
func TestMTUSound(t *testing.T) {
	ready, early := ways{name: "b", index: 7, direct: true, ready: true}, ways{name: "b", index: 7, direct: true}
	up := func(gateway int32) agent.Path { return link(gateway, v1alpha1.PathUp, 500) }
	lossy := up(2)
	lossy.LargeLost = true
	stranger := up(1)
	stranger.Cluster, stranger.ClusterIndex, stranger.LargeLost = "c", 8, true
	fragmenting := func(gateways ...int32) map[measure.Path]bool {
		set := map[measure.Path]bool{{OwnGateway: 1, ClusterIndex: 8, ViaIndex: 7, RemoteGateway: 1}: true}
		for _, g := range gateways {
			set[measure.Path{OwnGateway: g, ClusterIndex: 7, ViaIndex: 7, RemoteGateway: 1}] = true
		}
		return set
	}
	var many []agent.Path
	var all []int32
	for g := int32(12); g > 0; g-- {
		many, all = append(many, up(g)), append(all, g)
	}
	const why = "the underlay's MTU between the gateways is smaller than the nodes say"
	const remedy = "; lower the MTU of the gateways' interface"
	tests := map[string]struct {
		ways  ways
		view  measure.View
		known bool
		want  condition.Finding
	}{
		"whole":          {ready, measure.View{Paths: []agent.Path{up(1), stranger}, Fragmenting: fragmenting()}, true, condition.Yes(ReasonWhole, "packets of full size cross in one piece")},
		"nothing up":     {ready, measure.View{Paths: []agent.Path{link(1, v1alpha1.PathDown, 0), stranger}}, false, condition.Finding{}},
		"before peering": {early, measure.View{Paths: []agent.Path{up(1)}, Fragmenting: fragmenting(1)}, false, condition.Finding{}},
		"fragments":      {ready, measure.View{Paths: []agent.Path{up(2), up(1)}, Fragmenting: fragmenting(1, 2)}, true, condition.No(ReasonOuterFragments, "outer packets on link 1-1, 2-1 arrive in fragments: %s%s", why, remedy)},
		"many":           {ready, measure.View{Paths: many, Fragmenting: fragmenting(all...)}, true, condition.No(ReasonOuterFragments, "outer packets on link 1-1, 2-1, 3-1, 4-1, 5-1, 6-1, 7-1, 8-1 and 4 more arrive in fragments: %s%s", why, remedy)},
		"lost":           {ready, measure.View{Paths: []agent.Path{up(1), lossy}, Fragmenting: fragmenting(1)}, true, condition.No(ReasonLargePacketsLost, "packets of full size get lost on link 2-1, small ones do not: %s, or it drops fragments%s", why, remedy)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := mtuFinding(test.ways, test.view)
			require.Equal(t, test.known, known)
			if known {
				require.Equal(t, test.want, got)
			}
		})
	}
}

// The condition comes with the first link that is up, goes with the last, and
// stays as it is while a gateway cannot be read. Connected does not depend on it.
func TestMTUConditionFollowsWhatIsKnown(t *testing.T) {
	w := ways{name: "b", index: 7, direct: true, ready: true}
	var fc v1alpha1.ForeignCluster
	fc.Name = "b"
	status := func(view measure.View) metav1.ConditionStatus {
		stateMTU(&fc, w, view)
		if c := meta.FindStatusCondition(fc.Status.Conditions, v1alpha1.ConditionMTUSound); c != nil {
			return c.Status
		}
		return ""
	}
	up := measure.View{Paths: []agent.Path{link(1, v1alpha1.PathUp, 500)}}
	fragmenting := up
	fragmenting.Fragmenting = map[measure.Path]bool{{OwnGateway: 1, ClusterIndex: 7, ViaIndex: 7, RemoteGateway: 1}: true}
	down := measure.View{Paths: []agent.Path{link(1, v1alpha1.PathDown, 0)}}
	unreadable := measure.View{Unreadable: map[string]string{"a1": "refused"}}
	half := up
	half.Unreadable = unreadable.Unreadable

	require.Empty(t, status(down))
	require.Equal(t, metav1.ConditionTrue, status(up))
	require.Equal(t, metav1.ConditionFalse, status(fragmenting))
	require.Equal(t, metav1.ConditionTrue, connectedFinding(w, fragmenting, condition.Yes(ReasonReady, ""), channel.Status{}).Status)
	require.Equal(t, metav1.ConditionFalse, status(unreadable))
	require.Equal(t, metav1.ConditionFalse, status(half), "it may be the unreadable gateway's link")
	require.Equal(t, metav1.ConditionTrue, status(up))
	require.Empty(t, status(down))
}
