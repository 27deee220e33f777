package dns

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the Corefile says, and the next step; whatever is in the way is said, and
// is no error.
func TestStanding(t *testing.T) {
	c := usual(t, text)
	standing := Look(t.Context(), c)
	require.False(t, standing.Forwards)
	require.Contains(t, standing.String(), "run `weftctl dns enable`")

	_, err := Enable(t.Context(), c, right, Options{}, func(string) {})
	require.NoError(t, err)
	standing = Look(t.Context(), c)
	require.True(t, standing.Forwards)
	require.Contains(t, standing.String(), "ConfigMap kube-system/coredns forwards clusterset.local to weft-dns at 10.96.1.2")

	moved := weftDNS()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(moved), moved))
	moved.Spec.ClusterIP = "10.96.1.3"
	require.NoError(t, c.Update(t.Context(), moved))
	require.Contains(t, Look(t.Context(), c).String(), "is not what it should be, with weft-dns at 10.96.1.3: run `weftctl dns enable`")

	require.Contains(t, Look(t.Context(), cluster(t, weftDNS())).String(), "cannot be told whether the cluster's DNS forwards clusterset.local: there is no CoreDNS")
	require.Contains(t, Look(t.Context(), cluster(t)).String(), "run `weftctl install` first")
}
