package install

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func condition(kind string, status metav1.ConditionStatus, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Message: message, ObservedGeneration: 1}}
}

// ready is a cluster of two nodes in which nothing is left to do.
func ready() Observed {
	selector := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": name}}
	}
	set := func(name string, strategy appsv1.DaemonSetUpdateStrategyType) appsv1.DaemonSet {
		return appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2},
			Spec:       appsv1.DaemonSetSpec{Selector: selector(name), UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy}},
			Status:     appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2, NumberReady: 2, UpdatedNumberScheduled: 2},
		}
	}
	node := func(name string, gateway int32) v1alpha1.FabricNode {
		n := v1alpha1.FabricNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FabricNodeSpec{GatewayID: gateway}}
		n.Status.Conditions = condition("Ready", metav1.ConditionTrue, "")
		return n
	}
	o := Observed{
		DaemonSets: []appsv1.DaemonSet{
			set("weft-agent", appsv1.RollingUpdateDaemonSetStrategyType), set("weft-wireguard", appsv1.OnDeleteDaemonSetStrategyType),
		},
		Deployments: []appsv1.Deployment{{
			ObjectMeta: metav1.ObjectMeta{Name: "weft-controller", Generation: 1},
			Spec:       appsv1.DeploymentSpec{Selector: selector("weft-controller")},
			Status:     appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
		}},
		Nodes: []v1alpha1.FabricNode{node("a1", 1), node("a2", 0)},
	}
	o.Config.Generation = 1
	o.Config.Spec.ClusterID = "a"
	o.Config.Status.Conditions = condition("Ready", metav1.ConditionTrue, "")
	return o
}

func TestPendingIsEmptyWhenReady(t *testing.T) {
	require.Empty(t, ready().Pending())
	require.Equal(t, []string{"a1"}, summarize(ready()).Gateways)
	require.True(t, summarize(ready()).Ready)
}

func TestPendingNamesWhatIsMissing(t *testing.T) {
	cases := map[string]struct {
		change func(*Observed)
		want   string
	}{
		"agent on one node": {
			func(o *Observed) { o.DaemonSets[0].Status.NumberReady = 1 }, "weft-agent runs on 1 of 2 nodes"},
		"agent of the old version": {
			func(o *Observed) { o.DaemonSets[0].Status.UpdatedNumberScheduled = 1 }, "weft-agent runs on 1 of 2 nodes"},
		"set not seen by its controller": {
			func(o *Observed) { o.DaemonSets[0].Status = appsv1.DaemonSetStatus{} }, "weft-agent runs on 0 of 1 nodes"},
		"controller away": {
			func(o *Observed) { o.Deployments[0].Status.AvailableReplicas = 0 }, "weft-controller is not running yet"},
		"new controller does not start, the old one runs": {
			func(o *Observed) { o.Deployments[0].Status.Replicas = 2 }, "weft-controller is not running yet"},
		"config not seen": {
			func(o *Observed) { o.Config.Generation = 2 }, "waits for weft-controller"},
		"config not ready": {
			func(o *Observed) {
				o.Config.Status.Conditions = condition("Ready", metav1.ConditionFalse, "the pod CIDR is not known; set spec.networks")
			}, "set spec.networks"},
		"node not ready": {
			func(o *Observed) {
				o.Nodes[1].Status.Conditions = condition("Ready", metav1.ConditionFalse, "UDP port 4797 is taken")
			},
			"a2 (UDP port 4797 is taken)"},
		"silent node": {
			func(o *Observed) { o.Nodes[0].Status.Conditions = nil }, "a1 (no report from its agent)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := ready()
			c.change(&o)
			require.Contains(t, o.Pending(), c.want)
			require.False(t, summarize(o).Ready)
		})
	}
}

// An image that a node cannot get is the commonest mistake; the clause says so.
func TestPendingTellsThePodsTrouble(t *testing.T) {
	o := ready()
	o.DaemonSets[0].Status.NumberReady = 0
	o.Pods = []corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": "weft-agent"}},
		Spec:       corev1.PodSpec{NodeName: "a2"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Image: "weft.dev/weft:dev", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}},
		}}},
	}}
	require.Contains(t, o.Pending(), "weft-agent runs on 0 of 2 nodes (node a2 cannot get image weft.dev/weft:dev: load it there or give --image)")
}

// With OnDelete, pods of the former version are no reason to wait, but a note.
func TestFormerWireGuardPodsAreANote(t *testing.T) {
	o := ready()
	o.DaemonSets[1].Status.UpdatedNumberScheduled = 0
	require.Empty(t, o.Pending())
	require.Contains(t, summarize(o).Notes[0], "weft-wireguard keeps its former version on 2 nodes")
}
