package command

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// knowing is a cluster with that identity which knows others: local names and
// their identities.
func knowing(t *testing.T, own v1alpha1.Identity, others map[string]v1alpha1.Identity) client.Client {
	t.Helper()
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	config := &v1alpha1.FabricConfig{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FabricConfigName}}
	config.Status.Identity = own
	objects := []client.Object{config}
	for name, id := range others {
		fcl := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		fcl.Spec.Identity = id
		objects = append(objects, fcl)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func names(t *testing.T, c client.Client) []string {
	t.Helper()
	var list v1alpha1.ForeignClusterList
	require.NoError(t, c.List(t.Context(), &list))
	found := []string{}
	for _, fcl := range list.Items {
		found = append(found, fcl.Name)
	}
	return found
}

// claims is what is left, said once.
const claims = "PrefixClaims stay, so that peering again finds the same addresses.\n"

type identities = map[string]v1alpha1.Identity

// Cluster a knows b as milan and c as rome; b knows a as berlin. A name that
// does not fit the other cluster touches neither side.
func TestUnpeerBothSides(t *testing.T) {
	for title, c := range map[string]struct {
		name        string
		peerOnly    bool
		thereGone   bool
		here        identities
		refused     []string
		text        string
		left, there []string
	}{
		"known": {name: "milan", here: identities{"milan": "b", "rome": "c"},
			text: "The peering with milan is removed here.\nThe peering with berlin is removed there.\n" + claims, left: []string{"rome"}, there: []string{}},
		"mistyped": {name: "milna", here: identities{"milan": "b", "rome": "c"},
			refused: []string{"no ForeignCluster milna here, only milan, rome", "--peer-only"}, left: []string{"milan", "rome"}, there: []string{"berlin"}},
		"nothing here": {name: "milan",
			refused: []string{"no ForeignCluster milan here, nor any other", "--peer-only"}, left: []string{}, there: []string{"berlin"}},
		"mistyped, half done": {name: "milna", here: identities{"rome": "c"},
			refused: []string{"no ForeignCluster milna here, only rome", "--peer-only"}, left: []string{"rome"}, there: []string{"berlin"}},
		"repeated": {name: "milan", here: identities{"rome": "c"}, thereGone: true,
			text: "There is no ForeignCluster milan here: the peering is already gone, if that is its name (there are rome).\n" +
				"The other cluster does not know this one, so nothing was to be removed there.\n", left: []string{"rome"}, there: []string{}},
		"another cluster": {name: "rome", here: identities{"milan": "b", "rome": "c"},
			refused: []string{"rome has identity c", `identity "b"`, "`weftctl unpeer rome`"}, left: []string{"milan", "rome"}, there: []string{"berlin"}},
		"half done": {name: "milan", peerOnly: true, here: identities{"rome": "c"},
			text: "The peering with berlin is removed there.\n" + claims, left: []string{"rome"}, there: []string{}},
		"peer only keeps this side": {name: "milan", peerOnly: true, here: identities{"milan": "b"},
			text: "The peering with berlin is removed there.\n" + claims, left: []string{"milan"}, there: []string{}},
		"peer only, another cluster": {name: "rome", peerOnly: true, here: identities{"rome": "c"},
			refused: []string{"rome has identity c"}, left: []string{"rome"}, there: []string{"berlin"}},
	} {
		t.Run(title, func(t *testing.T) {
			known := identities{"berlin": "a"}
			if c.thereGone {
				known = nil
			}
			here, there := knowing(t, "a", c.here), knowing(t, "b", known)
			order := unpeering{name: c.name, peerOnly: c.peerOnly, progress: func(string) {}}
			results, err := order.both(t.Context(), here, func() (client.Client, error) { return there, nil })
			for _, want := range c.refused {
				require.ErrorContains(t, err, want)
			}
			if c.refused == nil {
				require.NoError(t, err)
				var out bytes.Buffer
				require.NoError(t, (&environment{out: &out, err: &out}).printParted(results))
				require.Equal(t, c.text, out.String())
			}
			require.Equal(t, c.left, names(t, here))
			require.Equal(t, c.there, names(t, there))
		})
	}
}

// A dead other side does not keep this one from parting.
func TestUnpeerFromTheDead(t *testing.T) {
	here := knowing(t, "a", identities{"milan": "b"})
	order := unpeering{name: "milan", progress: func(string) {}}
	results, err := order.both(t.Context(), here, func() (client.Client, error) { return nil, errors.New("it does not answer") })
	require.NoError(t, err)
	require.Equal(t, []parted{{Side: "here", Name: "milan", Removed: true}, {Side: "there", Error: "it does not answer"}}, results)
	require.Empty(t, names(t, here))
}

// Unpeering again is fine. Names that there are come with it, in case that the
// one that was given is mistyped.
func TestUnpeerAgain(t *testing.T) {
	here := knowing(t, "a", identities{"milan": "b", "rome": "c"})
	order := unpeering{name: "milan", progress: func(string) {}}
	for _, want := range []string{
		"The peering with milan is removed here.\n" + claims + "The other side still has its ForeignCluster, which is not connected any more: `weftctl unpeer` there removes it.\n",
		"There is no ForeignCluster milan here: the peering is already gone, if that is its name (there are rome).\n",
	} {
		results, err := order.here(t.Context(), here)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, (&environment{out: &out, err: &out}).printParted(results))
		require.Equal(t, want, out.String())
		require.Equal(t, []string{"rome"}, names(t, here))
	}
}

// Nobody can say whether the dead other side still knows this one.
func TestUnpeerAgainFromTheDead(t *testing.T) {
	here := knowing(t, "a", nil)
	_, err := unpeering{name: "milan"}.both(t.Context(), here, func() (client.Client, error) { return nil, errors.New("it does not answer") })
	require.ErrorContains(t, err, "it does not answer")
}
