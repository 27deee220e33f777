package peering

import (
	"bytes"
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func signer(seed byte) (ed25519.PrivateKey, v1alpha1.Identity) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return key, identity.Fingerprint(key.Public().(ed25519.PublicKey))
}

func signed(t *testing.T, key ed25519.PrivateKey, id v1alpha1.ClusterID, serial uint64) string {
	t.Helper()
	token, err := (&identity.Record{ClusterID: id, Epoch: 1, Serial: serial}).Sign(key)
	require.NoError(t, err)
	return token
}

func foreign(name string, id v1alpha1.Identity, record string, age time.Duration) v1alpha1.ForeignCluster {
	return v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1_790_000_000, 0).Add(-age))},
		Spec:       v1alpha1.ForeignClusterSpec{Identity: id, Record: record},
	}
}

// The newest valid record wins, wherever it came from; a bad one in the spec
// does not take back a good one that is known.
func TestNewestRecord(t *testing.T) {
	key, id := signer(1)
	otherKey, self := signer(2)
	one, two, three := signed(t, key, "b", 1), signed(t, key, "b", 2), signed(t, key, "b", 3)
	stranger := signed(t, otherKey, "b", 9)
	altered := two[:30] + "A" + two[31:]
	tests := map[string]struct {
		spec, status, said string
		want               string
		valid              bool
	}{
		"spec":              {two, "", "", two, true},
		"status is newer":   {one, two, "", two, true},
		"channel is newest": {one, two, three, three, true},
		"spec is newest":    {three, two, one, three, true},
		"stranger's":        {one, stranger, stranger, one, true},
		"altered, alone":    {altered, "", "", "", false},
		"altered, known":    {altered, two, "", two, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fc := foreign("b", id, test.spec, 0)
			fc.Status.Record = test.status
			v := Assess(&fc, nil, self, test.said)
			require.Equal(t, test.want, v.Token)
			require.Equal(t, test.valid, v.Valid)
			require.Equal(t, test.want != "", v.Usable())
		})
	}
}

func TestRelations(t *testing.T) {
	key, id := signer(1)
	otherKey, other := signer(2)
	_, self := signer(3)
	record := signed(t, key, "b", 1)
	old, young := foreign("old", id, record, time.Hour), foreign("young", id, record, 0)
	all := []v1alpha1.ForeignCluster{old, young}
	require.Equal(t, "old", Assess(&young, all, self, "").Duplicate)
	require.Empty(t, Assess(&old, all, self, "").Duplicate)

	forged := foreign("forged", id, "weft1.x.y", 2*time.Hour)
	all = []v1alpha1.ForeignCluster{forged, young}
	require.Empty(t, Assess(&young, all, self, "").Duplicate, "a forged record holds no identity")
	forged.Finalizers = []string{v1alpha1.Finalizer}
	require.Equal(t, "forged", Assess(&young, []v1alpha1.ForeignCluster{forged, young}, self, "").Duplicate, "one whose peering stands does")

	namesake := foreign("b", other, signed(t, otherKey, "b", 1), time.Hour)
	namesake.Status.ClusterID = "b"
	v := Assess(&young, []v1alpha1.ForeignCluster{namesake, young}, self, "")
	require.True(t, v.Usable())
	require.Contains(t, v.Message, "ForeignCluster b is another cluster with the same ID b")
	require.Contains(t, v.Message, "another local name")

	own := foreign("own", self, record, 0)
	require.False(t, Assess(&own, nil, self, "").Usable())
}
