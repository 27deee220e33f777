package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/peering"
)

// readyPair is two clusters that know nothing of each other, the tunnel open.
func readyPair(t *testing.T) (*side, *side) {
	t.Helper()
	a, b := newSide(t, "a"), newSide(t, "b")
	a.connect(b)
	b.connect(a)
	until(t, "both are ready", func() bool { return a.isReady() && b.isReady() }, a, b)
	return a, b
}

func connected(s *side, other string) func() bool {
	return func() bool { return strings.HasPrefix(s.condition(other, v1alpha1.ConditionConnected), "True") }
}

func bothConnected(a, b *side) func() bool {
	return func() bool { return connected(a, "b")() && connected(b, "a")() }
}

// peered is a pair that is connected.
func peered(t *testing.T) (*side, *side) {
	t.Helper()
	a, b := readyPair(t)
	a.create(a.foreign(b))
	b.create(b.foreign(a))
	until(t, "connected", bothConnected(a, b), a, b)
	return a, b
}

// Two clusters with the same pod CIDR, one object on each side, the second one
// later: each allocates a view and its wire prefixes, and each ends with the
// other's as Theirs.
func TestPeering(t *testing.T) {
	a, b := readyPair(t)
	a.create(a.foreign(b))
	for range 20 {
		a.turn()
		b.turn()
	}
	require.Empty(t, a.neighbor("b").Spec.Networks)
	require.Contains(t, a.condition("b", v1alpha1.ConditionChannelReady), "False Dialing")
	require.Contains(t, a.condition("b", v1alpha1.ConditionConnected), "b has not told its networks yet")
	b.create(b.foreign(a))
	until(t, "connected", bothConnected(a, b), a, b)

	na, nb := a.neighbor("b"), b.neighbor("a")
	require.Equal(t, v1alpha1.PodAccessAll, na.Spec.Access.Pods)
	require.EqualValues(t, 1440, na.Spec.MTU)
	require.Len(t, na.Spec.Peers, 1)
	for _, pair := range [][2]*v1alpha1.Neighbor{{na, nb}, {nb, na}} {
		ours, theirs := rows(pair[0], v1alpha1.RowOurs), rows(pair[1], v1alpha1.RowTheirs)
		require.Len(t, ours, 2)
		require.Len(t, theirs, 2)
		for i := range ours {
			require.Equal(t, ours[i].Wire, theirs[i].Wire, "one end chose it, the other was told")
			require.Equal(t, ours[i].Local, ours[i].Wire, "the first gateway's wire prefixes are the views")
			require.Equal(t, ours[i].OwnGateway, theirs[i].RemoteGateway)
			require.Zero(t, theirs[i].OriginIndex)
		}
		require.Equal(t, []v1alpha1.CIDR{"10.244.0.0/16", "100.64.0.0/20"}, []v1alpha1.CIDR{theirs[0].Local, theirs[1].Local})
	}
	require.Equal(t, "True LinksUp: 1 of 1 links up, RTT 20.1 ms", a.condition("b", v1alpha1.ConditionConnected))
	require.Contains(t, a.condition("b", v1alpha1.ConditionNetworksReady), "True")
	require.Contains(t, a.condition("b", v1alpha1.ConditionRecordValid), "True")
}

// Make before break: a wire prefix is told only when the gateways hold its row.
func TestOffersWaitForTheGateways(t *testing.T) {
	a, b := readyPair(t)
	a.lame = true
	a.create(a.foreign(b))
	b.create(b.foreign(a))
	until(t, "a hears b's offers", func() bool { n := a.neighbor("b"); return n != nil && len(rows(n, v1alpha1.RowTheirs)) == 2 }, a, b)
	until(t, "a waits", func() bool {
		return contains(a.condition("b", v1alpha1.ConditionNetworksReady), "gateway a1 has not put generation")
	}, a, b)
	require.Empty(t, rows(b.neighbor("a"), v1alpha1.RowTheirs), "b must not send under a prefix that a1 does not know")
	a.lame = false
	until(t, "connected", bothConnected(a, b), a, b)
	// A change of access is a new generation; it withdraws nothing meanwhile.
	a.lame = true
	var fc v1alpha1.ForeignCluster
	require.NoError(t, a.client.Get(t.Context(), client.ObjectKey{Name: "b"}, &fc))
	fc.Spec.Access.Pods = v1alpha1.PodAccessNone
	require.NoError(t, a.client.Update(t.Context(), &fc))
	until(t, "access is copied", func() bool { return a.neighbor("b").Spec.Access.Pods == v1alpha1.PodAccessNone }, a, b)
	for range 10 {
		a.turn()
		b.turn()
	}
	require.Len(t, rows(b.neighbor("a"), v1alpha1.RowTheirs), 2)
}

// A controller that restarts while the peer is away changes nothing, and the
// channel comes back when the peer does.
func TestRestartWithoutThePeer(t *testing.T) {
	a, b := peered(t)
	before := a.neighbor("b")
	b.stop()
	a.restart()
	for range 20 {
		a.turn()
	}
	require.Equal(t, before.Spec, a.neighbor("b").Spec)
	require.Equal(t, before.Generation, a.neighbor("b").Generation)
	until(t, "links are read", connected(a, "b"), a)
	require.Contains(t, a.condition("b", v1alpha1.ConditionNetworksReady), "True", "all of it is known from before")
	b.start()
	a.connect(b)
	b.connect(a)
	until(t, "the channel is back", func() bool {
		return contains(a.condition("b", v1alpha1.ConditionChannelReady), "True") && contains(b.condition("a", v1alpha1.ConditionChannelReady), "True")
	}, a, b)
	require.Equal(t, before.Generation, a.neighbor("b").Generation, "nothing new was learned")
}

// Unpeering leaves only claims; the other side is told and keeps its object; a
// re-peering finds the same prefixes.
func TestUnpeer(t *testing.T) {
	a, b := peered(t)
	before := a.neighbor("b").Spec
	fc := &v1alpha1.ForeignCluster{}
	fc.Name = "b"
	require.NoError(t, a.client.Delete(t.Context(), fc))
	until(t, "the object is gone", func() bool { return a.condition("b", v1alpha1.ConditionRecordValid) == "" }, a, b)
	require.Nil(t, a.neighbor("b"))
	var claims v1alpha1.PrefixClaimList
	require.NoError(t, a.client.List(t.Context(), &claims))
	require.Len(t, claims.Items, 3)
	until(t, "b is told", func() bool {
		return contains(b.condition("a", v1alpha1.ConditionConnected), "False PeerLeft") && contains(b.condition("a", v1alpha1.ConditionChannelReady), "False PeerLeft")
	}, a, b)
	b.restart()
	a.connect(b)
	for range 10 {
		b.turn()
	}
	require.Contains(t, b.condition("a", v1alpha1.ConditionConnected), "False PeerLeft", "a restart does not forget it")

	a.create(a.foreign(b))
	until(t, "networks are known again", func() bool { return contains(a.condition("b", v1alpha1.ConditionNetworksReady), "True") }, a, b)
	until(t, "connected again", bothConnected(a, b), a, b)
	require.Equal(t, before.Networks, a.neighbor("b").Spec.Networks)
	require.Equal(t, before.Rows, a.neighbor("b").Spec.Rows)
}

// The peer is gone and an agent reports nothing any more: unpeering waits for
// the agent, but not for ever.
func TestUnpeerIsBounded(t *testing.T) {
	a, b := peered(t)
	b.stop()
	a.lame = true
	fc := &v1alpha1.ForeignCluster{}
	fc.Name = "b"
	require.NoError(t, a.client.Delete(t.Context(), fc))
	until(t, "the neighbor is deleted", func() bool { return a.neighbor("b") == nil }, a)
	for range 10 {
		a.turn()
	}
	require.NotEmpty(t, a.condition("b", v1alpha1.ConditionRecordValid), "the agents still report its rows")
	a.peers.Now = func() time.Time { return time.Now().Add(20 * time.Second) }
	a.turn()
	require.Empty(t, a.condition("b", v1alpha1.ConditionRecordValid))
}

// Uninstalling waits for the agents.
func TestUninstall(t *testing.T) {
	a := newSide(t, "a")
	until(t, "ready", a.isReady, a)
	require.NoError(t, a.client.Delete(t.Context(), a.config()))
	_, err := a.fabric.Reconcile(t.Context(), requestFor(v1alpha1.FabricConfigName))
	require.NoError(t, err)
	c := meta.FindStatusCondition(a.config().Status.Conditions, v1alpha1.ConditionReady)
	require.Contains(t, c.Message, "a1; a2")
	until(t, "gone", func() bool { return a.config() == nil }, a)
}

// Wrong objects get a condition and no Neighbor.
func TestRefusedObjects(t *testing.T) {
	a, b := readyPair(t)
	forged := a.foreign(b)
	forged.Name = "forged"
	forged.Spec.Record = strings.Replace(forged.Spec.Record, "weft1.eyJ", "weft1.eyK", 1)
	other := a.foreign(b)
	other.Name = "other"
	other.Spec.Record = a.config().Status.Record
	own := a.foreign(b)
	own.Name, own.Spec.Identity, own.Spec.Record = "own", a.self.ID, a.config().Status.Record
	for _, fc := range []*v1alpha1.ForeignCluster{forged, other, own} {
		a.create(fc)
	}
	a.turn()
	require.Contains(t, a.condition("forged", v1alpha1.ConditionRecordValid), "False InvalidRecord: spec.record is refused")
	require.Contains(t, a.condition("other", v1alpha1.ConditionRecordValid), "False InvalidRecord: spec.record is refused: it belongs to identity "+string(a.self.ID))
	require.Contains(t, a.condition("own", v1alpha1.ConditionRecordValid), "False OwnIdentity")
	for _, name := range []string{"forged", "other", "own"} {
		require.Nil(t, a.neighbor(name))
		require.Contains(t, a.condition(name, v1alpha1.ConditionConnected), "False")
	}
	a.create(a.foreign(b))
	until(t, "the true one is not kept out", func() bool { return a.neighbor("b") != nil }, a, b)
	duplicate := a.foreign(b)
	duplicate.Name = "c"
	a.create(duplicate)
	a.turn()
	require.Contains(t, a.condition("c", peering.ConditionDuplicate), "True Duplicate: ForeignCluster b has the same identity")
	require.Nil(t, a.neighbor("c"))
}
