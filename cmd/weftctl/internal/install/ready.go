package install

import (
	"context"
	"fmt"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// Observed is what the wait for readiness looks at.
type Observed struct {
	DaemonSets  []appsv1.DaemonSet
	Deployments []appsv1.Deployment
	Pods        []corev1.Pod
	Config      v1alpha1.FabricConfig
	Nodes       []v1alpha1.FabricNode
}

// Observe reads it.
func Observe(ctx context.Context, c client.Reader) (Observed, error) {
	var o Observed
	var sets appsv1.DaemonSetList
	var deployments appsv1.DeploymentList
	var pods corev1.PodList
	var nodes v1alpha1.FabricNodeList
	system := client.InNamespace(v1alpha1.SystemNamespace)
	for _, read := range []struct {
		what string
		list client.ObjectList
		opts []client.ListOption
	}{
		{"DaemonSets", &sets, []client.ListOption{system}},
		{"Deployments", &deployments, []client.ListOption{system}},
		{"pods", &pods, []client.ListOption{system}},
		{"FabricNodes", &nodes, nil},
	} {
		if err := c.List(ctx, read.list, read.opts...); err != nil {
			return o, kube.Explain(err, "list", read.what)
		}
	}
	config, err := kube.FabricConfig(ctx, c)
	if err != nil {
		return o, err
	}
	o.DaemonSets, o.Deployments, o.Pods, o.Config, o.Nodes = sets.Items, deployments.Items, pods.Items, *config, nodes.Items
	return o, nil
}

// Pending says in one clause what the installation still lacks; empty if
// nothing.
func (o Observed) Pending() string {
	var pending []string
	for _, d := range o.Deployments {
		if !RolledOut(d) {
			pending = append(pending, fmt.Sprintf("%s is not running yet%s", d.Name, o.Trouble(d.Spec.Selector)))
		}
	}
	for _, d := range o.DaemonSets {
		if ready, want := Rollout(d); ready < want || d.Status.ObservedGeneration < d.Generation {
			pending = append(pending, fmt.Sprintf("%s runs on %d of %d nodes%s", d.Name, ready, want, o.Trouble(d.Spec.Selector)))
		}
	}
	ready := meta.FindStatusCondition(o.Config.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration < o.Config.Generation:
		pending = append(pending, "FabricConfig default waits for weft-controller")
	case ready.Status != metav1.ConditionTrue:
		pending = append(pending, "FabricConfig default is not ready: "+ready.Message)
	}
	if unready := o.unreadyNodes(); len(pending) == 0 && len(unready) > 0 {
		pending = append(pending, "nodes not ready: "+strings.Join(unready, "; "))
	}
	return strings.Join(pending, "; ")
}

// Rollout returns how many pods of the set run as they should, and how many
// should. With OnDelete, pods of the former version count: replacing them is
// the admin's decision.
func Rollout(d appsv1.DaemonSet) (ready, want int32) {
	want, ready = d.Status.DesiredNumberScheduled, d.Status.NumberReady
	if want == 0 && d.Status.ObservedGeneration == 0 {
		return 0, 1
	}
	if d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		ready = min(ready, d.Status.UpdatedNumberScheduled)
	}
	return ready, want
}

// RolledOut reports whether all pods of the newest version run and none of a
// former one is left: while an upgrade hangs, the former one goes on running.
func RolledOut(d appsv1.Deployment) bool {
	s, want := d.Status, replicas(d)
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= want && s.AvailableReplicas >= want && s.Replicas <= s.UpdatedReplicas
}

func replicas(d appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func (o Observed) unreadyNodes() []string {
	var unready []string
	for _, node := range o.Nodes {
		ready := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case ready == nil:
			unready = append(unready, node.Name+" (no report from its agent)")
		case ready.Status != metav1.ConditionTrue:
			unready = append(unready, fmt.Sprintf("%s (%s)", node.Name, ready.Message))
		}
	}
	sort.Strings(unready)
	return unready
}

// Trouble says why a pod of the selector does not run, if the kubelet or the
// scheduler says so.
func (o Observed) Trouble(selector *metav1.LabelSelector) string {
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return ""
	}
	for _, pod := range o.Pods {
		if !matches.Matches(labels.Set(pod.Labels)) || pod.DeletionTimestamp != nil {
			continue
		}
		if why := podTrouble(pod); why != "" {
			return " (" + why + ")"
		}
	}
	return ""
}

func podTrouble(pod corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "not scheduled: " + condition.Message
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		waiting := container.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull":
			return fmt.Sprintf("node %s cannot get image %s: load it there or give --image", pod.Spec.NodeName, container.Image)
		case "CrashLoopBackOff":
			return fmt.Sprintf("it crashes: see `kubectl -n %s logs %s`", pod.Namespace, pod.Name)
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return fmt.Sprintf("node %s: %s", pod.Spec.NodeName, waiting.Message)
		}
	}
	return ""
}
