package controlplane

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// What keeps a Neighbor from being made is told in conditions, with the remedy.
func TestForeignNeighborInTheWay(t *testing.T) {
	a, b := readyPair(t)
	a.create(&v1alpha1.Neighbor{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec:       v1alpha1.NeighborSpec{ClusterID: "b", Identity: v1alpha1.Identity(strings.Repeat("z", 52)), ClusterIndex: 1},
	})
	a.create(a.foreign(b))
	a.turn()
	a.turn()
	for _, kind := range []string{v1alpha1.ConditionNetworksReady, v1alpha1.ConditionConnected} {
		require.Contains(t, a.condition("b", kind), "kubectl delete neighbor b")
	}
	require.NoError(t, a.client.Delete(t.Context(), a.neighbor("b")))
	b.create(b.foreign(a))
	until(t, "connected once it is out of the way", bothConnected(a, b), a, b)
}
