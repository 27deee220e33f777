package access

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

func foreign(name string, change func(*v1alpha1.ForeignCluster)) *v1alpha1.ForeignCluster {
	fcl := &v1alpha1.ForeignCluster{}
	fcl.Name, fcl.Spec.Identity, fcl.Status.ClusterID = name, v1alpha1.Identity("id-"+name), v1alpha1.ClusterID(name)
	if change != nil {
		change(fcl)
	}
	return fcl
}

func transit(neighbors ...string) func(*v1alpha1.ForeignCluster) {
	return func(fcl *v1alpha1.ForeignCluster) { fcl.Spec.Access.Transit.Neighbors = neighbors }
}

func waiting(fcl *v1alpha1.ForeignCluster) {
	no := false
	fcl.Spec.Accepted, fcl.Spec.IntroducedBy = &no, []string{"c/a-b"}
	fcl.Status.Introductions = []v1alpha1.IntroductionStatus{{
		Introducer: "c", Connection: "a-b", Mode: v1alpha1.ModeRequire, State: v1alpha1.IntroductionAwaitingApproval,
		Expires: &metav1.Time{Time: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)},
	}}
}

func server(t *testing.T, clusters ...*v1alpha1.ForeignCluster) client.Client {
	t.Helper()
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	config := &v1alpha1.FabricConfig{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FabricConfigName}}
	config.Spec.ClusterID = "own"
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(config)
	for _, fcl := range clusters {
		builder = builder.WithObjects(fcl)
	}
	return builder.Build()
}

// Pairs are forwarded both ways if either names the other, between direct
// peers alone: h is known through a hub, and nobody is called nobody.
func TestTransitPairsAsTheyResult(t *testing.T) {
	behindHub := func(fcl *v1alpha1.ForeignCluster) { fcl.Spec.ReachedThrough = []string{"a"} }
	listing := Make("own", []v1alpha1.ForeignCluster{
		*foreign("d", nil), *foreign("a", transit("b", "h", "nobody")), *foreign("b", nil),
		*foreign("c", transit("*")), *foreign("h", behindHub), *foreign("w", waiting),
	})
	got := map[string]Transit{}
	for _, cluster := range listing.Clusters {
		got[cluster.Name] = cluster.Transit
	}
	require.Equal(t, map[string]Transit{
		"a": {With: []string{"b", "c"}, Idle: []string{"h", "nobody"}},
		"b": {With: []string{"a", "c"}},
		"c": {With: []string{"a", "b", "d"}},
		"d": {With: []string{"c"}},
		"h": {With: []string{}},
		"w": {With: []string{}},
	}, got)
}

func TestListingTellsWhoMadeItAndWhatWaits(t *testing.T) {
	c := server(t, foreign("c", func(fcl *v1alpha1.ForeignCluster) {
		fcl.Spec.Access = v1alpha1.AccessSpec{
			Pods: v1alpha1.PodAccessAll, Transit: v1alpha1.TransitSpec{UseAsHub: true, Neighbors: []string{"x"}},
			Introductions: v1alpha1.IntroductionAsk, Introduced: v1alpha1.PodAccessAll,
		}
		fcl.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionIntroductions, Message: "b waits for approval"}}
	}), foreign("b", func(fcl *v1alpha1.ForeignCluster) {
		waiting(fcl)
		fcl.Spec.ReachedThrough = []string{"c"}
	}))
	listing, err := Collect(t.Context(), c, "")
	require.NoError(t, err)
	var text strings.Builder
	listing.Text(&text)
	require.Equal(t, `b: cluster ID b, made by weft-controller since it is reached through c and it was introduced by c/a-b
  identity       id-b
  waits          for approval, before own peers with it directly: weftctl access b --accept
  pods           b may open no flows to own, only answer those of own
  exports        b is told of no service of own
  imports        no service of b is imported in own
  transit        b exchanges no traffic with others through own
  hub            own reaches no other cluster through b
  introductions  own refuses the clusters that b introduces
  introduced     clusters that own knows through b alone may open no flows to own
  introduced by  c, connection a-b, mode Require: waits for approval, until 2026-11-30T12:00:00Z unless it is renewed

c: cluster ID c, made by an admin
  identity       id-c
  pods           c may open flows to all pods of own
  exports        c is told of no service of own
  imports        no service of c is imported in own
  transit        c exchanges no traffic with others through own; without effect, since own does not peer with them directly: x
  hub            own reaches other clusters through c, which can read and forge what passes through it
  introductions  own peers directly with a cluster that c introduces once it is accepted (`+"`weftctl access NAME --accept`"+`)
  introduced     clusters that own knows through c alone may open flows to all pods of own
  introduces     b waits for approval
`, text.String())

	one, err := Collect(t.Context(), c, "b")
	require.NoError(t, err)
	require.Len(t, one.Clusters, 1)
	require.Equal(t, v1alpha1.IntroductionDeny, one.Clusters[0].Introductions, "left out means the least")
	require.True(t, one.Clusters[0].AwaitingApproval)
	require.False(t, one.Clusters[0].Direct)
	_, err = Collect(t.Context(), c, "d")
	require.ErrorContains(t, err, "no ForeignCluster d here, only b, c")
}

func TestNobodyMayDoAnything(t *testing.T) {
	listing, err := Collect(t.Context(), server(t), "")
	require.NoError(t, err)
	require.NotNil(t, listing.Clusters)
	var text strings.Builder
	listing.Text(&text)
	require.Contains(t, text.String(), "own knows no other cluster")
}

// Accepting changes one field, once, and only where something waits.
func TestAccept(t *testing.T) {
	c := server(t, foreign("b", waiting), foreign("a", nil))
	for _, step := range []struct {
		name    string
		changed bool
		text    string
	}{
		{"b", true, "b (identity id-b) is accepted"},
		{"b", false, "b is accepted already"},
		{"a", false, "nobody has introduced it"},
	} {
		accepted, err := Accept(t.Context(), c, step.name)
		require.NoError(t, err)
		require.Equal(t, step.changed, accepted.Changed)
		var text strings.Builder
		accepted.Text(&text)
		require.Contains(t, text.String(), step.text)
	}
	got := &v1alpha1.ForeignCluster{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "b"}, got))
	require.True(t, got.Spec.Direct())
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "a"}, got))
	require.Nil(t, got.Spec.Accepted)

	_, err := Accept(t.Context(), c, "x")
	require.ErrorContains(t, err, "no ForeignCluster x here, only a, b")
}

func TestAcceptRefusesWhatIsBeingDeleted(t *testing.T) {
	c := server(t, foreign("b", func(fcl *v1alpha1.ForeignCluster) {
		waiting(fcl)
		fcl.Finalizers = []string{v1alpha1.Finalizer}
	}))
	require.NoError(t, c.Delete(t.Context(), foreign("b", nil)))
	_, err := Accept(t.Context(), c, "b")
	require.ErrorContains(t, err, "is being deleted")
}
