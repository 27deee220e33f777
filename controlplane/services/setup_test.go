package services

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

func connectedAs(status metav1.ConditionStatus, reason string) *v1alpha1.ForeignCluster {
	fc := &v1alpha1.ForeignCluster{}
	fc.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionConnected, Status: status, Reason: reason}}
	return fc
}

// Only what probes have found takes endpoints away.
func TestReached(t *testing.T) {
	for _, test := range []struct {
		status metav1.ConditionStatus
		reason string
		reach  Reach
	}{
		{metav1.ConditionTrue, "LinksUp", ReachUp},
		{metav1.ConditionTrue, "ThroughHub", ReachUp},
		{metav1.ConditionFalse, "LinksDown", ReachDown},
		{metav1.ConditionFalse, "PeerLeft", ReachDown},
		{metav1.ConditionFalse, "Probing", ReachUnknown},
		{metav1.ConditionFalse, "NotReady", ReachUnknown},
		{metav1.ConditionFalse, "FabricNotReady", ReachUnknown},
		{metav1.ConditionUnknown, "MeasurementsUnreadable", ReachUnknown},
	} {
		require.Equal(t, test.reach, Reached(connectedAs(test.status, test.reason), time.Now()), test.reason)
	}
	require.Equal(t, ReachUnknown, Reached(&v1alpha1.ForeignCluster{}, time.Now()))
	// What is not known stands as it was.
	r := &Importer{Reach: Reached}
	down, unread := connectedAs(metav1.ConditionFalse, "LinksDown"), connectedAs(metav1.ConditionUnknown, "MeasurementsUnreadable")
	require.Equal(t, ReachUnknown, r.reach(unread))
	require.Equal(t, ReachDown, r.reach(down))
	require.Equal(t, ReachDown, r.reach(unread))
}

// silent peers have said nothing.
type silent struct{ Channels }

func (silent) Services(v1alpha1.Identity) []types.NamespacedName { return nil }

// A moment without answers takes no endpoint away, and is looked at again when it
// would be more than that.
func TestSettling(t *testing.T) {
	since := time.Unix(1_000_000, 0)
	down := connectedAs(metav1.ConditionFalse, "LinksDown")
	down.Status.Conditions[0].LastTransitionTime = metav1.NewTime(since)
	require.Equal(t, ReachUnknown, Reached(down, since))
	require.Equal(t, ReachUnknown, Reached(down, since.Add(settled-time.Millisecond)))
	require.Equal(t, time.Millisecond, settling(down, since.Add(settled-time.Millisecond)))
	require.Equal(t, ReachDown, Reached(down, since.Add(settled)))
	require.Zero(t, settling(down, since.Add(settled)))
	require.Equal(t, ReachDown, Reached(down, since.Add(-time.Hour)), "the clock was set back")
	left := down.DeepCopy()
	left.Status.Conditions[0].Reason = "PeerLeft"
	require.Equal(t, ReachDown, Reached(left, since), "what the cluster has said is certain")

	young := down.DeepCopy()
	young.Status.Conditions[0].LastTransitionTime = metav1.Now()
	for _, before := range []*v1alpha1.ForeignCluster{
		connectedAs(metav1.ConditionTrue, "LinksUp"), connectedAs(metav1.ConditionUnknown, "MeasurementsUnreadable"), connectedAs(metav1.ConditionFalse, "Probing"),
	} {
		require.True(t, changes(standingOf).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: young}), "asks for the turn that waits")
	}

	down.Name, down.Spec.Identity = "b", v1alpha1.Identity(strings.Repeat("b", 64))
	down.Status.Conditions[0].LastTransitionTime = metav1.Now()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(v1alpha1.AddToScheme(scheme), mcsv1beta1.Install(scheme)))
	r := &Importer{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(down).Build(),
		Reach:  Reached, Channels: silent{}, book: &book{known: true}, Again: func(types.NamespacedName) {},
	}
	result, err := r.reconcile(t.Context(), types.NamespacedName{})
	require.NoError(t, err)
	require.Positive(t, result.RequeueAfter)
	require.LessOrEqual(t, result.RequeueAfter, settled)
}

// Of all that is watched, what matters to services asks for a turn, and the rest,
// which changes often, does not.
func TestChanges(t *testing.T) {
	fc := connectedAs(metav1.ConditionTrue, "LinksUp")
	figures, down, access := fc.DeepCopy(), fc.DeepCopy(), fc.DeepCopy()
	figures.Status.Paths = []v1alpha1.PathStatus{{RTTMicroseconds: 7}}
	down.Status.Conditions[0].Status, down.Status.Conditions[0].Reason = metav1.ConditionFalse, "LinksDown"
	access.Spec.Access.Services.ExportNamespaces = []string{"shop"}
	node, heartbeat, moved := &corev1.Node{}, &corev1.Node{}, &corev1.Node{}
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	moved.Status.Addresses = []corev1.NodeAddress{{Address: "192.0.2.1"}}
	views := &v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{Networks: []v1alpha1.ViewNetwork{{Name: "pods"}}}}
	rows := &v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{Rows: []v1alpha1.Row{{OwnGateway: 1}}}}
	fabric := &v1alpha1.FabricNode{Spec: v1alpha1.FabricNodeSpec{FabricAddress: "100.64.0.1"}}
	pods := &v1alpha1.FabricNode{Status: v1alpha1.FabricNodeStatus{PodPrefixes: []v1alpha1.CIDR{"10.0.0.1/32"}}}
	for i, test := range []struct {
		of            func(client.Object) any
		before, after client.Object
		passes        bool
	}{
		{standingOf, fc, figures, false}, {standingOf, fc, down, true}, {standingOf, fc, access, true},
		{policyOf, fc, down, false}, {policyOf, fc, access, true},
		{addressesOf, node, heartbeat, false}, {addressesOf, node, moved, true},
		{viewsOf, &v1alpha1.Neighbor{}, rows, false}, {viewsOf, &v1alpha1.Neighbor{}, views, true},
		{fabricAddressOf, &v1alpha1.FabricNode{}, pods, false}, {fabricAddressOf, &v1alpha1.FabricNode{}, fabric, true},
		{networksOf, &v1alpha1.FabricConfig{}, &v1alpha1.FabricConfig{Status: v1alpha1.FabricConfigStatus{Record: "x"}}, false},
		{goingOf, &corev1.Namespace{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}}}, true},
	} {
		require.Equal(t, test.passes, changes(test.of).Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}), "%d", i)
		require.True(t, changes(test.of).Create(event.CreateEvent{Object: test.after}))
	}
}

// A peer whose services change faster than is allowed waits; another one does
// not.
func TestPace(t *testing.T) {
	s := New(nil, "", slog.New(slog.DiscardHandler))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	s.imports = queue
	tell := func(id v1alpha1.Identity, n int) {
		for i := range n {
			s.ChannelChanged(id, channel.ServiceEvent{Heard: true, Names: []types.NamespacedName{{Namespace: "shop", Name: fmt.Sprint("s", i)}}})
		}
	}
	tell("hostile", 5*paceBurst)
	require.Equal(t, paceBurst, queue.Len(), "each name is there once")
	require.Greater(t, s.pace("hostile"), 30*time.Second)
	require.LessOrEqual(t, s.pace("hostile"), paceMost)
	require.Zero(t, s.pace("other"))
	require.LessOrEqual(t, len(s.due["hostile"]), 4*paceBurst)

	// Two services that change over and over do not fall behind.
	for range 5 * paceBurst {
		tell("restless", 2)
	}
	require.Less(t, s.pace("restless"), time.Second)
}

// A second object of an identity takes nothing over, even before it is marked.
func TestCounted(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	peer := func(name string, id v1alpha1.Identity, seconds int64) *v1alpha1.ForeignCluster {
		fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(seconds, 0)}}
		fc.Spec.Identity = id
		return fc
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(peer("b", "one", 1), peer("a", "one", 2), peer("c", "two", 3), peer("d", "two", 3), peer("aa", "three", 4)).Build()
	list, err := counted(t.Context(), reader)
	require.NoError(t, err)
	var names []string
	for _, fc := range list {
		names = append(names, fc.Name)
	}
	require.Equal(t, []string{"aa", "b", "c"}, names)
}

// A peer that refuses ours in ever new words does not keep exports from their
// turns.
func TestPaceOfAnswers(t *testing.T) {
	s := New(nil, "", slog.New(slog.DiscardHandler))
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	s.exports = queue
	for i := range channel.MaxServices {
		s.ChannelChanged("hostile", channel.ServiceEvent{Names: []types.NamespacedName{{Namespace: "shop", Name: fmt.Sprint("s", i)}}})
	}
	require.LessOrEqual(t, queue.Len(), answerBurst+10)
}

// What fails for hours is still tried again soon.
func TestRetries(t *testing.T) {
	limiter := retries().RateLimiter
	for range 100 {
		require.LessOrEqual(t, limiter.When(reconcile.Request{}), retryMost)
	}
}
