package peering

import (
	"context"
	"crypto/ed25519"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	fabricpeering "github.com/weft-fabric/weft/controlplane/peering"
)

func quiet(string) {}

// cluster is an API server of an installed cluster whose identity comes from
// the seed.
func cluster(t *testing.T, id string, seed byte, endpoints []string, objects ...client.Object) client.Client {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	record := identity.Record{ClusterID: v1alpha1.ClusterID(id), Epoch: 1, Serial: 1, Gateways: []identity.Gateway{{
		ID: 1, Endpoints: endpoints, Lanes: []identity.Lane{{Port: 51847, Key: []byte(strings.Repeat("k", 32))}},
	}}}
	token, err := record.Sign(key)
	require.NoError(t, err)
	config := &v1alpha1.FabricConfig{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	config.Spec.ClusterID = v1alpha1.ClusterID(id)
	config.Spec.Ports.Lane = 51847
	config.Status.Identity = identity.Fingerprint(key.Public().(ed25519.PublicKey))
	config.Status.Record = token
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(config).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ForeignCluster{}).Build()
}

func get(t *testing.T, c client.Client, name string) *v1alpha1.ForeignCluster {
	t.Helper()
	fcl := &v1alpha1.ForeignCluster{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: name}, fcl))
	return fcl
}

func TestPeerMakesEachKnownToTheOther(t *testing.T) {
	a, b := cluster(t, "a", 'a', []string{"192.0.2.1"}), cluster(t, "b", 'b', nil)
	outcomes, err := Peer(t.Context(), Side{Client: a}, Side{Client: b, LocalName: "alpha", Grants: Grants{Pods: v1alpha1.PodAccessNone}}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, "b", outcomes[0].Peer)
	require.Equal(t, "b may open flows to all pods of a", Granted(outcomes[0])[0])
	require.Equal(t, "alpha may open no flows to b, only answer those of b", Granted(outcomes[1])[0])

	inA, inB := get(t, a, "b"), get(t, b, "alpha")
	require.Equal(t, outcomes[1].Identity, inA.Spec.Identity)
	require.Equal(t, v1alpha1.PodAccessAll, inA.Spec.Access.Pods)
	record, err := identity.ParseRecord(inB.Spec.Record)
	require.NoError(t, err)
	require.Equal(t, outcomes[0].Identity, record.Identity())
	require.Equal(t, v1alpha1.PodAccessNone, inB.Spec.Access.Pods)
}

// What an admin granted, and the local name that was chosen, survive peering
// again; an explicit flag changes the grant.
func TestPeerAgainKeepsWhatWasGranted(t *testing.T) {
	a, b := cluster(t, "a", 'a', []string{"192.0.2.1"}), cluster(t, "b", 'b', nil)
	_, err := Peer(t.Context(), Side{Client: a, LocalName: "beta", Grants: Grants{Pods: v1alpha1.PodAccessNone}}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	outcomes, err := Peer(t.Context(), Side{Client: a}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, "beta", outcomes[0].Peer)
	require.Equal(t, v1alpha1.PodAccessNone, get(t, a, "beta").Spec.Access.Pods)
	_, err = Peer(t.Context(), Side{Client: a, Grants: Grants{Pods: v1alpha1.PodAccessAll}}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.PodAccessAll, get(t, a, "beta").Spec.Access.Pods)
}

func TestPeerRefusesWithRemedy(t *testing.T) {
	a := func() client.Client { return cluster(t, "a", 'a', []string{"192.0.2.1"}) }
	stranger := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	stranger.Spec.Identity = v1alpha1.Identity(strings.Repeat("a", 52))
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	cases := map[string]struct {
		a, b Side
		want []string
	}{
		"one cluster twice": {Side{Client: a()}, Side{Client: a()}, []string{"both kubeconfigs lead to cluster a", "--peer-context"}},
		"nobody reachable": {Side{Client: cluster(t, "a", 'a', nil)}, Side{Client: cluster(t, "b", 'b', nil)},
			[]string{"neither a nor b publishes an endpoint", "--exposure"}},
		"name taken": {Side{Client: cluster(t, "a", 'a', []string{"192.0.2.1"}, stranger)}, Side{Client: cluster(t, "b", 'b', nil)},
			[]string{`cluster a knows another identity as "b": if that cluster was reinstalled, run ` + "`weftctl unpeer b`", "then peer again", "--name"}},
		"not installed": {Side{Client: a()}, Side{Client: fake.NewClientBuilder().WithScheme(scheme).Build()},
			[]string{"other cluster", "weftctl install"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Peer(t.Context(), c.a, c.b, 0, quiet)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// The wait says what is missing, in the order in which conditions come true,
// and ends with the ports to check.
func TestPeerWaitsForBothSides(t *testing.T) {
	a, b := cluster(t, "a", 'a', []string{"192.0.2.1"}), cluster(t, "b", 'b', nil)
	_, err := Peer(t.Context(), Side{Client: a}, Side{Client: b}, 0, quiet)
	require.NoError(t, err)
	setConditions(t, a, "b", "RecordValid", "ChannelReady", "NetworksReady", "Connected")
	setConditions(t, b, "a", "RecordValid")
	synctest.Test(t, func(t *testing.T) {
		_, err := Peer(t.Context(), Side{Client: a}, Side{Client: b}, 3*time.Second, quiet)
		require.ErrorContains(t, err, "b: waiting for weft-controller to report ChannelReady of a")
		require.ErrorContains(t, err, "UDP port 51847 of the gateways of a can be reached from b")
	})
	setConditions(t, b, "a", "RecordValid", "ChannelReady", "NetworksReady", "Connected")
	outcomes, err := Peer(t.Context(), Side{Client: a}, Side{Client: b}, 3*time.Second, quiet)
	require.NoError(t, err)
	require.True(t, outcomes[0].Connected && outcomes[1].Connected)
}

// What is normal at first is told calmly, what needs somebody in full.
func TestPeerTellsWhatItWaitsFor(t *testing.T) {
	raw := "no channel to b yet: dial tcp 192.0.2.1:9443: connect: connection refused"
	for _, c := range []struct{ kind, reason, want string }{
		{v1alpha1.ConditionRecordValid, fabricpeering.ReasonInvalidRecord, raw},
		{v1alpha1.ConditionChannelReady, fabricpeering.ReasonDialing, "waiting for weft-controller of b to be reached"},
		{v1alpha1.ConditionChannelReady, v1alpha1.ReasonPeerLeft, "waiting for weft-controller of b to be reached"},
		{v1alpha1.ConditionNetworksReady, fabricpeering.ReasonWaitingForPeer, "waiting for b to say"},
		{v1alpha1.ConditionNetworksReady, fabricpeering.ReasonWaitingForAgents, "waiting for the gateways"},
		{v1alpha1.ConditionNetworksReady, fabricpeering.ReasonRefused, raw},
		{v1alpha1.ConditionConnected, fabricpeering.ReasonProbing, "waiting for the first answer to a probe"},
	} {
		a := cluster(t, "a", 'a', nil, &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		line, _ := unconnected(t.Context(), []Side{{Client: a}}, []Outcome{{ClusterID: "a", Peer: "b"}})
		require.Equal(t, "a: waiting for weft-controller to look at b", line)
		fcl := get(t, a, "b")
		for _, kind := range []string{v1alpha1.ConditionRecordValid, v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady} {
			fcl.Status.Conditions = append(fcl.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Ok"})
		}
		meta.SetStatusCondition(&fcl.Status.Conditions, metav1.Condition{Type: c.kind, Status: metav1.ConditionFalse, Reason: c.reason, Message: raw})
		require.NoError(t, a.Status().Update(t.Context(), fcl))
		line, cause := unconnected(t.Context(), []Side{{Client: a}}, []Outcome{{ClusterID: "a", Peer: "b"}})
		require.Contains(t, line, c.want)
		require.ErrorContains(t, cause, raw)
		require.Equal(t, c.want == raw, strings.Contains(line, raw), line)
	}
}

func setConditions(t *testing.T, c client.Client, name string, kinds ...string) {
	t.Helper()
	fcl := get(t, c, name)
	fcl.Status.Conditions = nil
	for _, kind := range kinds {
		fcl.Status.Conditions = append(fcl.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Ok"})
	}
	require.NoError(t, c.Status().Update(t.Context(), fcl))
}

func held(name string) *v1alpha1.ForeignCluster {
	return &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.Finalizer}}}
}

// The controller does not answer: unpeer ends within its bound, says so, and
// with force drops the finalizer and the rows.
func TestPartIsBounded(t *testing.T) {
	c := cluster(t, "a", 'a', nil, held("b"), &v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := Part(t.Context(), c, "b", false, quiet)
		require.ErrorContains(t, err, "weft-controller has not released it")
		require.ErrorContains(t, err, "--force")
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
		require.NotNil(t, get(t, c, "b").DeletionTimestamp)
	})
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, Part(t.Context(), c, "b", true, quiet))
	})
	err := c.Get(t.Context(), client.ObjectKey{Name: "b"}, &v1alpha1.ForeignCluster{})
	require.True(t, kube.Missing(err), "%v", err)
	err = c.Get(t.Context(), client.ObjectKey{Name: "b"}, &v1alpha1.Neighbor{})
	require.True(t, kube.Missing(err), "%v", err)
}

// The controller releases the object while unpeer waits.
func TestPartWaitsForTheController(t *testing.T) {
	looks := 0
	plain := cluster(t, "a", 'a', nil, held("b"))
	c := interceptor.NewClient(plain.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if looks++; looks == 3 {
				require.NoError(t, DropFinalizer(ctx, plain, "b"))
			}
			return inner.Get(ctx, key, into, options...)
		},
	})
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, Part(t.Context(), c, "b", false, quiet))
	})
	require.Equal(t, 3, looks)
}

func TestPartNamesTheUnknownPeer(t *testing.T) {
	require.ErrorContains(t, Part(t.Context(), cluster(t, "a", 'a', nil), "nobody", false, quiet), "there is no ForeignCluster nobody")
}
