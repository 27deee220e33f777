package peering

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// allServices is what a new peer is told and heard of.
var allServices = v1alpha1.ServicesSpec{Export: v1alpha1.ServicesAll, Import: v1alpha1.ServicesAll}

func yes(b bool) *bool { return &b }

// hub and edge are the two sides of a peering by which edge uses hub.
func hub(c client.Client) Side {
	return Side{Client: c, Grants: Grants{Transit: []string{EveryNeighbor}}}
}

func edge(c client.Client) Side {
	return Side{Client: c, Grants: Grants{
		UseAsHub: yes(true), Introductions: v1alpha1.IntroductionAllow, Introduced: v1alpha1.PodAccessAll,
	}}
}

func TestPeerGrantsWhatIsSaid(t *testing.T) {
	h, e := cluster(t, "hub", 'h', []string{"192.0.2.1"}), cluster(t, "edge", 'e', nil)
	outcomes, err := Peer(t.Context(), hub(h), edge(e), 0, quiet)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.AccessSpec{
		Pods: v1alpha1.PodAccessAll, Services: allServices, Transit: v1alpha1.TransitSpec{Neighbors: []string{"*"}},
		Introductions: v1alpha1.IntroductionDeny, Introduced: v1alpha1.PodAccessNone,
	}, get(t, h, "edge").Spec.Access)
	require.Equal(t, v1alpha1.AccessSpec{
		Pods: v1alpha1.PodAccessAll, Services: allServices, Transit: v1alpha1.TransitSpec{UseAsHub: true},
		Introductions: v1alpha1.IntroductionAllow, Introduced: v1alpha1.PodAccessAll,
	}, get(t, e, "hub").Spec.Access)
	require.Equal(t, get(t, h, "edge").Spec.Access, outcomes[0].Granted)
	require.Equal(t, []string{
		"edge may open flows to all pods of hub",
		"edge is told of all services that hub exports",
		"all services that edge exports are imported in hub",
		"edge may exchange traffic with every other peer of hub through hub",
	}, Granted(outcomes[0]))
	require.Equal(t, []string{
		"hub may open flows to all pods of edge",
		"hub is told of all services that edge exports",
		"all services that hub exports are imported in edge",
		"edge reaches other clusters through hub, which can read and forge what passes through it",
		"edge peers directly with the clusters that hub introduces",
		"clusters that edge knows through hub alone may open flows to all pods of edge",
	}, Granted(outcomes[1]))
}

// Without flags a new peer gets its pods flows, exchanges services, and nothing
// else.
func TestPeerGrantsLittleByDefault(t *testing.T) {
	a, b := cluster(t, "a", 'a', []string{"192.0.2.1"}), cluster(t, "b", 'b', nil)
	_, err := Peer(t.Context(), Side{Client: a}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	for _, access := range []v1alpha1.AccessSpec{get(t, a, "b").Spec.Access, get(t, b, "a").Spec.Access} {
		require.Equal(t, v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessAll, Services: allServices, Introductions: v1alpha1.IntroductionDeny, Introduced: v1alpha1.PodAccessNone}, access)
	}
}

// What is granted by whatever tool stays unless a flag names it; a list that is
// given replaces the former one.
func TestPeerAgainChangesOnlyWhatIsSaid(t *testing.T) {
	h, e := cluster(t, "hub", 'h', []string{"192.0.2.1"}), cluster(t, "edge", 'e', nil)
	_, err := Peer(t.Context(), hub(h), edge(e), 0, quiet)
	require.NoError(t, err)
	edited := get(t, h, "edge")
	edited.Spec.Access.Transit.Neighbors = []string{"x", "y"}
	require.NoError(t, h.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))

	before := get(t, e, "hub").Spec.Access
	outcomes, err := Peer(t.Context(), Side{Client: h}, Side{Client: e}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, []string{"x", "y"}, outcomes[0].Granted.Transit.Neighbors)
	require.Equal(t, []string{"x", "y"}, get(t, h, "edge").Spec.Access.Transit.Neighbors)
	require.Equal(t, before, get(t, e, "hub").Spec.Access)

	outcomes, err = Peer(t.Context(), Side{Client: h, Grants: Grants{Transit: []string{"y", "z"}}}, Side{Client: e, Grants: Grants{UseAsHub: yes(false)}}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, []string{"y", "z"}, get(t, h, "edge").Spec.Access.Transit.Neighbors)
	before.Transit.UseAsHub = false
	require.Equal(t, before, get(t, e, "hub").Spec.Access)
	require.Equal(t, before, outcomes[1].Granted)

	_, err = Peer(t.Context(), Side{Client: h, Grants: Grants{Transit: []string{}}}, Side{Client: e}, 0, quiet)
	require.NoError(t, err)
	require.Empty(t, get(t, h, "edge").Spec.Access.Transit.Neighbors)
}

// The cluster is known through a hub and by an introduction that waits. An
// admin who peers with it makes the object theirs, with an admin's defaults.
func TestPeerAdoptsWhatTheControllerMade(t *testing.T) {
	a, b := cluster(t, "a", 'a', []string{"192.0.2.1"}), cluster(t, "b", 'b', nil)
	self, err := ReadSelf(t.Context(), b)
	require.NoError(t, err)
	made := &v1alpha1.ForeignCluster{}
	made.Name = "b-7"
	made.Spec = v1alpha1.ForeignClusterSpec{
		Identity: self.Identity, Record: "old", Accepted: yes(false), ReachedThrough: []string{"c"}, IntroducedBy: []string{"c/a-b"},
		Access: v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessNone},
	}
	require.NoError(t, a.Create(t.Context(), made))
	outcomes, err := Peer(t.Context(), Side{Client: a, Grants: Grants{Introductions: v1alpha1.IntroductionAsk}}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, "b-7", outcomes[0].Peer)
	spec := get(t, a, "b-7").Spec
	require.True(t, spec.MadeByAdmin() && spec.Direct())
	require.Equal(t, self.Record, spec.Record)
	require.Equal(t, v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessAll, Services: allServices, Introductions: v1alpha1.IntroductionAsk, Introduced: v1alpha1.PodAccessNone}, spec.Access)
	require.Equal(t, spec.Access, outcomes[0].Granted)
}

// A cluster is no transit neighbor of itself. Nothing is written on either side.
func TestPeerRefusesTransitToItself(t *testing.T) {
	a, b := cluster(t, "a", 'a', []string{"192.0.2.1"}), cluster(t, "b", 'b', nil)
	_, err := Peer(t.Context(), Side{Client: a}, Side{Client: b, Grants: Grants{Transit: []string{"a", "c"}}}, 0, quiet)
	require.ErrorContains(t, err, "cluster b cannot forward between a and itself: name other clusters")
	for _, c := range []client.Client{a, b} {
		var list v1alpha1.ForeignClusterList
		require.NoError(t, c.List(t.Context(), &list))
		require.Empty(t, list.Items)
	}
}

// Services are granted each way, in all namespaces, in some or in none.
func TestPeerGrantsServices(t *testing.T) {
	a, b := cluster(t, "a", 'a', []string{"192.0.2.1"}), cluster(t, "b", 'b', nil)
	none := Side{Client: b, Grants: Grants{ExportServices: v1alpha1.ServicesNone, ImportServices: v1alpha1.ServicesNone}}
	outcomes, err := Peer(t.Context(), Side{Client: a, Grants: Grants{ImportServices: v1alpha1.ServicesNone}}, none, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ServicesSpec{Export: v1alpha1.ServicesAll, Import: v1alpha1.ServicesNone}, get(t, a, "b").Spec.Access.Services)
	require.Len(t, Granted(outcomes[0]), 2)
	require.Len(t, Granted(outcomes[1]), 1)

	edited := get(t, a, "b")
	edited.Spec.Access.Services = v1alpha1.ServicesSpec{
		Export: v1alpha1.ServicesSelected, ExportNamespaces: []string{"shop"}, Import: v1alpha1.ServicesSelected, ImportNamespaces: []string{"x", "y"},
	}
	require.NoError(t, a.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")))
	outcomes, err = Peer(t.Context(), Side{Client: a}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, edited.Spec.Access.Services, get(t, a, "b").Spec.Access.Services)
	require.Equal(t, []string{
		"b may open flows to all pods of a", "b is told of the services that a exports in namespace shop",
		"services that b exports in namespaces x, y are imported in a",
	}, Granted(outcomes[0]))
	_, err = Peer(t.Context(), Side{Client: a, Grants: Grants{ExportServices: v1alpha1.ServicesAll}}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.ServicesSpec{Export: v1alpha1.ServicesAll, Import: v1alpha1.ServicesSelected, ImportNamespaces: []string{"x", "y"}},
		get(t, a, "b").Spec.Access.Services)

	some := Grants{ExportServices: v1alpha1.ServicesSelected, ExportNamespaces: []string{"shop"}, ImportServices: v1alpha1.ServicesNone}
	outcomes, err = Peer(t.Context(), Side{Client: a, Grants: some}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	want := v1alpha1.ServicesSpec{Export: v1alpha1.ServicesSelected, ExportNamespaces: []string{"shop"}, Import: v1alpha1.ServicesNone}
	require.Equal(t, want, get(t, a, "b").Spec.Access.Services, "the namespaces of the former policy are gone")
	require.Equal(t, want, outcomes[0].Granted.Services)
}
