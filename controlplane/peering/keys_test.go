package peering

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// A cluster that others introduced puts the WireGuard key of a neighbor in its
// record: the neighbor keeps its tunnel.
func TestIntroducedClusterTakesNoKey(t *testing.T) {
	stolen, own := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	record := &identity.Record{Gateways: []identity.Gateway{
		{ID: 1, Lanes: []identity.Lane{{Port: 1, Key: stolen}}},
		{ID: 2, Lanes: []identity.Lane{{Port: 1, Key: own}}},
	}}
	cluster := func(name string, by ...string) v1alpha1.ForeignCluster {
		return v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ForeignClusterSpec{Identity: v1alpha1.Identity(name), IntroducedBy: by}}
	}
	neighbor := func(name string, keys ...[]byte) v1alpha1.Neighbor {
		n := v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.Identity = v1alpha1.Identity(name)
		for _, key := range keys {
			n.Spec.Peers = append(n.Spec.Peers, v1alpha1.NeighborPeer{Lanes: []v1alpha1.PeerLane{{PublicKey: base64.StdEncoding.EncodeToString(key)}}})
		}
		return n
	}
	z := cluster("z", "c/x")
	for name, test := range map[string]struct {
		s    snapshot
		kept int
	}{
		"an admin's":                 {snapshot{clusters: []v1alpha1.ForeignCluster{cluster("b"), z}, neighbors: []v1alpha1.Neighbor{neighbor("b", stolen)}}, 1},
		"an admin's that came later": {snapshot{clusters: []v1alpha1.ForeignCluster{cluster("b"), z}, neighbors: []v1alpha1.Neighbor{neighbor("b", stolen), neighbor("z", stolen, own)}}, 1},
		"an introduced one's":        {snapshot{clusters: []v1alpha1.ForeignCluster{cluster("b", "c/y"), z}, neighbors: []v1alpha1.Neighbor{neighbor("b", stolen)}}, 1},
		"held since before":          {snapshot{clusters: []v1alpha1.ForeignCluster{cluster("b", "c/y"), z}, neighbors: []v1alpha1.Neighbor{neighbor("b", stolen), neighbor("z", stolen, own)}}, 2},
		"nobody's":                   {snapshot{clusters: []v1alpha1.ForeignCluster{cluster("b"), z}, neighbors: []v1alpha1.Neighbor{neighbor("b")}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.s.withoutForeignKeys(&z, record)
			require.Len(t, got.Gateways, test.kept)
			require.Len(t, record.Gateways, 2)
			if test.kept == 1 {
				require.ErrorContains(t, err, "gateway 1 gets no tunnel: its record names a WireGuard key that is one of b")
				require.EqualValues(t, 2, got.Gateways[0].ID)
			} else {
				require.NoError(t, err)
			}
		})
	}
	admins := cluster("z")
	got, err := (&snapshot{neighbors: []v1alpha1.Neighbor{neighbor("b", stolen)}}).withoutForeignKeys(&admins, record)
	require.NoError(t, err)
	require.Same(t, record, got)
}
