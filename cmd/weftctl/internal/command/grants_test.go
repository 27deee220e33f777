package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// said is what the flags of both sides say.
func said(t *testing.T, args ...string) (own, peers peering.Grants, err error) {
	t.Helper()
	var here, there grantFlags
	cmd := &cobra.Command{}
	here.add(cmd, "")
	there.add(cmd, "peer-")
	require.NoError(t, cmd.ParseFlags(args))
	if own, err = here.read(cmd); err == nil {
		peers, err = there.read(cmd)
	}
	return own, peers, err
}

func TestGrantFlags(t *testing.T) {
	own, peers, err := said(t)
	require.NoError(t, err)
	require.Equal(t, [2]peering.Grants{}, [2]peering.Grants{own, peers}, "what no flag says is left alone")

	own, peers, err = said(t, "--transit", "all", "--peer-use-as-hub", "--peer-introductions", "Allow", "--peer-introduced", "All")
	require.NoError(t, err)
	yes, no := true, false
	require.Equal(t, peering.Grants{Transit: []string{"*"}}, own)
	require.Equal(t, peering.Grants{UseAsHub: &yes, Introductions: v1alpha1.IntroductionAllow, Introduced: v1alpha1.PodAccessAll}, peers)

	own, _, err = said(t, "--transit", "rome, milan,rome", "--use-as-hub=false", "--introductions", "Ask", "--pods", "None")
	require.NoError(t, err)
	require.Equal(t, peering.Grants{
		Pods: v1alpha1.PodAccessNone, Transit: []string{"milan", "rome"}, UseAsHub: &no, Introductions: v1alpha1.IntroductionAsk,
	}, own)
	own, peers, err = said(t, "--export-services", "shop, search,shop", "--peer-import-services", "None", "--peer-export-services", "All")
	require.NoError(t, err)
	require.Equal(t, peering.Grants{ExportServices: v1alpha1.ServicesSelected, ExportNamespaces: []string{"search", "shop"}}, own)
	require.Equal(t, peering.Grants{ExportServices: v1alpha1.ServicesAll, ImportServices: v1alpha1.ServicesNone}, peers)
	own, _, err = said(t, "--transit", "none")
	require.NoError(t, err)
	require.Equal(t, peering.Grants{Transit: []string{}}, own)
	require.True(t, own.Any(), "to revoke is to say something")
}

// Each mistake is told by its own flag, in one line that says what to choose.
func TestWrongGrants(t *testing.T) {
	for args, want := range map[string]string{
		"--introductions maybe":        "--introductions maybe is not known: choose Allow, Ask or Deny",
		"--peer-introductions allow":   "--peer-introductions allow is not known: choose Allow, Ask or Deny",
		"--introduced Some":            "--introduced Some is not known: choose All or None",
		"--peer-pods x":                "--peer-pods x is not known: choose All or None",
		"--transit a,all":              "all stands alone",
		"--export-services all":        `"all" is no namespace here: choose All or None, or name namespaces with commas`,
		"--peer-import-services a,,b":  `"" is no namespace here`,
		"--import-services Selected":   `"Selected" is no namespace here`,
		"--transit a,,b":               `"" is no name of a ForeignCluster`,
		"--peer-transit Rome":          `--peer-transit Rome: "Rome" is no name of a ForeignCluster`,
		"--transit=":                   `"" is no name`,
		"--transit " + manyNames():     "lists 65 clusters but at most 64 are allowed",
		"--transit *,a":                "* stands alone",
		"--transit " + longName():      "is no name of a ForeignCluster",
		"--peer-transit none,berlin":   "none stands alone",
		"--introduced All --pods what": "--pods what",
	} {
		_, _, err := said(t, strings.Fields(args)...)
		require.ErrorContains(t, err, want, args)
		require.ErrorAs(t, err, &usageError{}, args)
	}
}

func longName() string { return strings.Repeat("x", 41) }

func manyNames() string {
	var names []string
	for i := range 65 {
		names = append(names, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	return strings.Join(names, ",")
}

// An admin without the other side's kubeconfig changes what is granted here.
func TestAccessChangesGrants(t *testing.T) {
	here := knowing(t, "a", identities{"milan": "b", "rome": "c"})
	yes := true
	var out bytes.Buffer
	env := &environment{out: &out, err: &out}
	grants := peering.Grants{UseAsHub: &yes, Introductions: v1alpha1.IntroductionAsk, Transit: []string{"rome"}}
	require.NoError(t, env.runAccess(t.Context(), here, "milan", false, grants))
	require.Contains(t, out.String(), "milan may exchange traffic with rome through")
	require.NotContains(t, out.String(), "rome: ", "only the cluster that was named")

	got := &v1alpha1.ForeignCluster{}
	require.NoError(t, here.Get(t.Context(), client.ObjectKey{Name: "milan"}, got))
	require.Equal(t, v1alpha1.AccessSpec{
		Transit: v1alpha1.TransitSpec{Neighbors: []string{"rome"}, UseAsHub: true}, Introductions: v1alpha1.IntroductionAsk,
	}, got.Spec.Access)
	require.NoError(t, env.runAccess(t.Context(), here, "milan", false, peering.Grants{Transit: []string{}}))
	require.NoError(t, here.Get(t.Context(), client.ObjectKey{Name: "milan"}, got))
	require.Empty(t, got.Spec.Access.Transit.Neighbors)
	require.True(t, got.Spec.Access.Transit.UseAsHub)

	err := env.runAccess(t.Context(), here, "milan", false, peering.Grants{Transit: []string{"milan"}})
	require.ErrorContains(t, err, "between milan and itself")
	err = env.runAccess(t.Context(), here, "milna", false, grants)
	require.ErrorContains(t, err, "no ForeignCluster milna here, only milan, rome")
}

// What weft-controller would set back at once is refused, with the way to it.
func TestAccessOfAnIntroducedClusterFollowsItsIntroducer(t *testing.T) {
	here := knowing(t, "a", identities{"milan": "b"})
	got := &v1alpha1.ForeignCluster{}
	require.NoError(t, here.Get(t.Context(), client.ObjectKey{Name: "milan"}, got))
	got.Spec.ReachedThrough, got.Spec.IntroducedBy = []string{"c"}, []string{"c/a-b"}
	require.NoError(t, here.Update(t.Context(), got))
	env := &environment{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	err := env.runAccess(t.Context(), here, "milan", false, peering.Grants{Pods: v1alpha1.PodAccessAll})
	require.ErrorContains(t, err, "what is granted as --introduced to those that it is known through (c, c/a-b)")

	results, err := unpeering{name: "milan", progress: func(string) {}}.here(t.Context(), here)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, (&environment{out: &out, err: &out}).printParted(results))
	require.Contains(t, out.String(), "Note: weft-controller makes milan anew for as long as it is reached through c and is introduced by c/a-b: revoke that")
}
