package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
	"github.com/weft-fabric/weft/tools/chart"
)

// sweepLimit bounds the wait for the folders to be removed on every node.
const sweepLimit = 45 * time.Second

const (
	agentName = "weft-agent"
	sweepName = "weft-sweep"
)

// installedImage returns the chart values for the image that the agents run,
// nil if they are not installed.
func installedImage(ctx context.Context, c client.Reader) (map[string]any, error) {
	agent := &appsv1.DaemonSet{}
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: agentName}, agent)
	if kube.Missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, kube.Explain(err, "read", "DaemonSet "+agentName)
	}
	container := agent.Spec.Template.Spec.Containers[0]
	values := map[string]any{"reference": container.Image, "pullPolicy": string(container.ImagePullPolicy)}
	return map[string]any{"image": values, "sweep": true}, nil
}

// sweep removes the nodes' folders by means of a DaemonSet that lives as long
// as it takes. It reports whether every ready node was swept.
func sweep(ctx context.Context, c client.Client, m chart.Manifests, progress wait.Progress) (bool, error) {
	set := sweepSet(m)
	if set == nil {
		return true, nil
	}
	ready, err := readyNodes(ctx, c)
	if err != nil {
		return false, err
	}
	nodes := int32(len(ready))
	if err := apply(ctx, c, set); err != nil {
		return false, err
	}
	err = wait.Until(ctx, sweepLimit, progress, func(ctx context.Context) (string, error) {
		current := &appsv1.DaemonSet{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(set), current); err != nil {
			return "", kube.Explain(err, "read", "DaemonSet "+sweepName)
		}
		if current.Status.ObservedGeneration > 0 && current.Status.NumberReady >= min(nodes, current.Status.DesiredNumberScheduled) {
			return "", nil
		}
		return fmt.Sprintf("removing folders, done on %d of %d nodes", current.Status.NumberReady, nodes), nil
	})
	timeout := &wait.TimeoutError{}
	if errors.As(err, &timeout) {
		return false, nil
	}
	return err == nil, err
}

func sweepSet(m chart.Manifests) *unstructured.Unstructured {
	for _, object := range m.Objects {
		if object.GetKind() == "DaemonSet" && object.GetName() == sweepName {
			return object
		}
	}
	return nil
}
