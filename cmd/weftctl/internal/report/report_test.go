package report

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func conditions(status metav1.ConditionStatus, reason, message string, kinds ...string) []metav1.Condition {
	var list []metav1.Condition
	for _, kind := range kinds {
		list = append(list, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
	return list
}

// record of a cluster whose one gateway has the endpoints.
func record(t *testing.T, endpoints ...string) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	r := identity.Record{ClusterID: "b", Epoch: 1, Serial: 1, Gateways: []identity.Gateway{{
		ID: 1, Endpoints: endpoints, Lanes: []identity.Lane{{Port: 51847, Key: []byte(strings.Repeat("k", 32))}},
	}}}
	token, err := r.Sign(key)
	require.NoError(t, err)
	return token
}

func identityOf(t *testing.T, token string) v1alpha1.Identity {
	t.Helper()
	r, err := identity.ParseRecord(token)
	require.NoError(t, err)
	return r.Identity()
}

// dnsPods is weft-dns with as many of its two pods available.
func dnsPods(available int32) appsv1.Deployment {
	two := int32(2)
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "weft-dns"}, Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: &metav1.LabelSelector{}},
		Status: appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: available},
	}
}

// well is cluster a, one gateway and one plain node, connected to b.
func well(t *testing.T) Input {
	t.Helper()
	in := Input{Now: now}
	in.Deployments = []appsv1.Deployment{{
		ObjectMeta: metav1.ObjectMeta{Name: "weft-controller"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}},
		Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}}
	in.DaemonSets = []appsv1.DaemonSet{{
		ObjectMeta: metav1.ObjectMeta{Name: "weft-agent"}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{}},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 2, NumberReady: 2, UpdatedNumberScheduled: 2},
	}}
	in.Config.Spec.ClusterID = "a"
	in.Config.Status.Networks = []v1alpha1.OwnNetwork{{Name: "pods", Kind: "Pod", CIDR: "10.244.0.0/16", Index: 1}}
	in.Config.Status.Record = record(t, "192.0.2.1")
	in.Config.Status.Conditions = conditions(metav1.ConditionTrue, "Ready", "", "Ready")
	in.Neighbors = []v1alpha1.Neighbor{{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "u", Generation: 3}}}
	for i, name := range []string{"a2", "a1"} {
		node := v1alpha1.FabricNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FabricNodeSpec{GatewayID: int32(i)}}
		node.Status.Applied = []v1alpha1.AppliedNeighbor{{Name: "b", UID: "u", Generation: 3}}
		node.Status.Conditions = conditions(metav1.ConditionTrue, "Ready", "", "Ready")
		in.Nodes = append(in.Nodes, node)
	}
	fcl := v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	fcl.Spec.Record = record(t, "198.51.100.7")
	fcl.Spec.Identity = identityOf(t, fcl.Spec.Record)
	fcl.Spec.Access.Pods = v1alpha1.PodAccessAll
	fcl.Status.Conditions = conditions(metav1.ConditionTrue, "Ok", "", "RecordValid", "ChannelReady", "NetworksReady", "Connected")
	fcl.Status.Networks = []v1alpha1.RemappedNetwork{{Name: "pods", Kind: "Pod", Original: "10.244.0.0/16", Remapped: "100.70.0.0/16"}}
	fcl.Status.Paths = []v1alpha1.PathStatus{{
		Via: "b", Gateway: 1, RemoteGateway: 1, State: v1alpha1.PathUp, RTTMicroseconds: 20250, Active: true, Reason: v1alpha1.PathReasonDirect,
		Since: metav1.NewTime(now.Add(-90 * time.Second)),
	}}
	in.Clusters = []v1alpha1.ForeignCluster{fcl}
	return in
}

func TestAllIsWell(t *testing.T) {
	r := Make(well(t))
	require.True(t, r.Healthy, "%+v", r.Problems)
	require.Equal(t, "a1", r.Nodes[0].Name, "sorted by name")
	var text strings.Builder
	r.Text(&text)
	for _, want := range []string{
		"Cluster a exports pods 10.244.0.0/16", "pods 10.244.0.0/16 as 100.70.0.0/16",
		"1-1", "Up (in use)", "20.25 ms", "0.0 %", "1m30s", "direct, and the only path", "as a peer", "All is well.",
	} {
		require.Contains(t, text.String(), want)
	}
}

// A link came up a while ago and has lost 10 % of its probes: within the first
// minute these may be probes from before it was up, so neither the problems
// nor the table speak of them.
func TestLossTellsOnlyOfLinksThatHaveBeenUp(t *testing.T) {
	for _, c := range []struct {
		state v1alpha1.PathState
		since time.Time
		tells bool
	}{
		{v1alpha1.PathUp, now.Add(-2 * time.Second), false},
		{v1alpha1.PathUp, now.Add(-50 * time.Second), false},
		{v1alpha1.PathUp, now.Add(-60 * time.Second), false},
		{v1alpha1.PathUp, now.Add(-61 * time.Second), true},
		{v1alpha1.PathUp, now.Add(-time.Hour), true},
		{v1alpha1.PathUp, now.Add(time.Minute), false}, // the clocks differ
		{v1alpha1.PathUp, time.Time{}, false},
		{v1alpha1.PathUnknown, now.Add(-time.Hour), false},
		{v1alpha1.PathDown, now.Add(-time.Hour), false},
	} {
		t.Run(fmt.Sprintf("%s since %s", c.state, c.since.Format(time.TimeOnly)), func(t *testing.T) {
			in := well(t)
			path := &in.Clusters[0].Status.Paths[0]
			path.State, path.Since, path.LossPermille = c.state, metav1.NewTime(c.since), 100
			r := Make(in)
			told := slices.ContainsFunc(r.Problems, func(p Problem) bool { return strings.Contains(p.What, "probes are lost") })
			require.Equal(t, c.tells, told)
			require.Equal(t, c.tells, slices.Contains(pathCells(r.Clusters[0].Paths[0]), "10.0 %"))
			require.Equal(t, !c.tells, slices.Contains(pathCells(r.Clusters[0].Paths[0]), "-"))
		})
	}
}

// What a controller wrote that does not run any more is not told as what is.
func TestNobodyMeasures(t *testing.T) {
	in := well(t)
	require.True(t, Make(in).Clusters[0].Connected)
	in.Deployments[0].Status.AvailableReplicas = 0
	r := Make(in)
	require.True(t, r.Stale)
	require.False(t, r.Clusters[0].Connected)
	require.NotEmpty(t, r.Clusters[0].Paths)
	for _, p := range r.Clusters[0].Paths {
		require.Equal(t, v1alpha1.PathUnknown, p.State)
		require.Zero(t, p.RTTMilliseconds+p.LossPercent+float64(p.SinceSeconds))
	}
	var out strings.Builder
	r.Text(&out)
	require.Contains(t, out.String(), "unknown")
	require.Contains(t, out.String(), "not known while weft-controller does not run")
	require.NotContains(t, out.String(), "Up (in use)")
}

// Each mishap gives one problem, with its object, its cause and what to do.
func TestProblems(t *testing.T) {
	set := func(in *Input, kind string, status metav1.ConditionStatus, reason, message string) {
		list := in.Clusters[0].Status.Conditions
		for i := range list {
			if list[i].Type == kind {
				list[i].Status, list[i].Reason, list[i].Message = status, reason, message
			}
		}
	}
	cases := map[string]struct {
		change           func(*Input)
		object, what, do string
	}{
		"controller away": {func(in *Input) { in.Deployments[0].Status.AvailableReplicas = 0 },
			"Deployment weft-controller", "does not run, so nothing new is learned", "describe pods"},
		"controller put away": {func(in *Input) {
			in.Deployments[0].Spec.Replicas, in.Deployments[0].Status.AvailableReplicas = new(int32), 0
		}, "Deployment weft-controller", "it is scaled to 0, so nothing new is learned", "scale deployment weft-controller --replicas=1"},
		"names not served": {func(in *Input) { in.Deployments = append(in.Deployments, dnsPods(0)) },
			"Deployment weft-dns", "does not run, so pods find no services of other clusters by name", "describe pods"},
		"one of two": {func(in *Input) { in.Deployments = append(in.Deployments, dnsPods(1)) },
			"Deployment weft-dns", "1 of its 2 pods run", "describe pods"},
		"rollout hangs on an image": {func(in *Input) {
			in.Deployments[0].Status.Replicas = 2
			in.Pods = []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "a1"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Image: "registry.example/weft:8", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
			}}}}}
		}, "Deployment weft-controller", "rollout is not complete, so a former version goes on running (node a1 cannot get image registry.example/weft:8", "describe pods"},
		"agent away": {func(in *Input) { in.DaemonSets[0].Status.NumberReady = 1 },
			"DaemonSet weft-agent", "1 of 2 nodes", "describe pods"},
		"no pod CIDR": {func(in *Input) {
			in.Config.Status.Conditions = conditions(metav1.ConditionFalse, "NetworksInvalid", "the pod CIDR is not known", "Ready")
		}, "FabricConfig default", "the pod CIDR is not known", "weftctl install --pod-cidr"},
		"node in trouble": {func(in *Input) {
			in.Nodes[0].Status.Conditions = conditions(metav1.ConditionFalse, "X", "UDP port 4797 is taken", "Ready")
			in.Pods = []corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Name: "weft-agent-x", Labels: map[string]string{"app.kubernetes.io/name": "weft-agent"}},
				Spec:       corev1.PodSpec{NodeName: "a2"},
			}}
			in.Config.Status.Conditions = conditions(metav1.ConditionFalse, "AgentsNotReady", "1 of 2 nodes are ready", "Ready")
		}, "node a2", "UDP port 4797 is taken", "logs weft-agent-x"},
		"node behind": {func(in *Input) { in.Nodes[1].Status.Applied[0].Generation = 2 },
			"node a1", "newest state of b", "kubectl"},
		"rows of an earlier peering": {func(in *Input) { in.Nodes[1].Status.Applied[0].UID = "v" },
			"node a1", "newest state of b", "kubectl"},
		"forged record": {func(in *Input) { set(in, "RecordValid", metav1.ConditionFalse, "Bad", "the signature does not match") },
			"cluster b", "not RecordValid: the signature does not match", "weftctl record"},
		"record of a reinstalled peer": {func(in *Input) {
			in.Clusters[0].Spec.Identity = "former"
			set(in, "RecordValid", metav1.ConditionFalse, "InvalidRecord", "it belongs to another identity")
		}, "cluster b", "it belongs to another identity", "delete this ForeignCluster (`weftctl unpeer b`) and apply the record anew: the identity cannot change"},
		"no channel": {func(in *Input) { set(in, "ChannelReady", metav1.ConditionFalse, "NoHandshake", "no handshake") },
			"cluster b", "no handshake", "198.51.100.7 port 51847"},
		"no channel, peer behind NAT": {func(in *Input) {
			in.Clusters[0].Spec.Record = record(t)
			set(in, "ChannelReady", metav1.ConditionFalse, "NoHandshake", "no handshake")
		}, "cluster b", "no handshake", "reaches us at UDP 192.0.2.1 port 51847"},
		"both behind NAT": {func(in *Input) {
			in.Clusters[0].Spec.Record, in.Config.Status.Record = record(t), record(t)
			set(in, "ChannelReady", metav1.ConditionFalse, "NoHandshake", "no handshake")
		}, "cluster b", "no handshake", "neither side publishes"},
		"peer left": {func(in *Input) { set(in, "Connected", metav1.ConditionFalse, "PeerLeft", "b ended the peering") },
			"cluster b", "b ended the peering", "weftctl unpeer b"},
		"duplicate": {func(in *Input) {
			in.Clusters[0].Status.Conditions = append(conditions(metav1.ConditionTrue, "Valid", "", "RecordValid"),
				conditions(metav1.ConditionFalse, "Duplicate", "ForeignCluster x has the same identity and is older", "Connected")...)
		}, "cluster b", "x has the same identity", "kubectl delete foreigncluster b"},
		"one link down": {func(in *Input) { in.Clusters[0].Status.Paths[0].State = v1alpha1.PathDown },
			"cluster b, link 1-1", "not answered", "UDP 198.51.100.7"},
		"underlay's MTU too small": {func(in *Input) {
			in.Clusters[0].Status.Conditions = append(in.Clusters[0].Status.Conditions,
				conditions(metav1.ConditionFalse, "OuterFragments", "outer packets on link 1-1 arrive in fragments", "MTUSound")...)
		}, "cluster b", "not MTUSound: outer packets on link 1-1 arrive in fragments", "ping -M do -s SIZE 198.51.100.7"},
		"underlay's MTU too small, peer behind NAT": {func(in *Input) {
			in.Clusters[0].Spec.Record = record(t)
			in.Clusters[0].Status.Conditions = append(in.Clusters[0].Status.Conditions,
				conditions(metav1.ConditionFalse, "OuterFragments", "outer packets on link 1-1 arrive in fragments", "MTUSound")...)
		}, "cluster b", "arrive in fragments", "ping -M do -s SIZE a gateway of b"},
		"lossy link": {func(in *Input) { in.Clusters[0].Status.Paths[0].LossPermille = 35 },
			"cluster b, link 1-1", "3.5 %", "outside the tunnel"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := well(t)
			c.change(&in)
			r := Make(in)
			require.False(t, r.Healthy)
			require.Len(t, r.Problems, 1)
			require.Equal(t, c.object, r.Problems[0].Object)
			require.Contains(t, r.Problems[0].What, c.what)
			require.Contains(t, r.Problems[0].Do, c.do)
		})
	}
}
