package install

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// readyNodes names the nodes whose kubelet answers.
func readyNodes(ctx context.Context, c client.Reader) (map[string]bool, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, kube.Explain(err, "list", "Nodes")
	}
	ready := map[string]bool{}
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready[node.Name] = true
			}
		}
	}
	return ready, nil
}

// stuckPods returns Weft's pods on nodes whose kubelet does not answer: nobody
// there will ever report their end.
func stuckPods(ctx context.Context, c client.Reader) ([]corev1.Pod, error) {
	ready, err := readyNodes(ctx, c)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(v1alpha1.SystemNamespace)); err != nil {
		return nil, kube.Explain(err, "list", "pods")
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Spec.NodeName == "" || ready[pod.Spec.NodeName]
	}), nil
}

// giveUpPods deletes such pods from the API server without waiting for their
// nodes.
func giveUpPods(ctx context.Context, c client.Client, progress wait.Progress) error {
	stuck, err := stuckPods(ctx, c)
	if err != nil {
		return err
	}
	for i := range stuck {
		progress(fmt.Sprintf("giving up pod %s on node %s, which does not answer", stuck[i].Name, stuck[i].Spec.NodeName))
		if err := c.Delete(ctx, &stuck[i], client.GracePeriodSeconds(0)); err != nil && !kube.Missing(err) {
			return kube.Explain(err, "delete", "pod "+stuck[i].Name)
		}
	}
	return nil
}

func nodesOf(pods []corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Spec.NodeName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
