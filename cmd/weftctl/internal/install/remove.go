package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
	"github.com/weft-fabric/weft/tools/chart"
)

const (
	// goneLimit is when deletions are late enough to ask whether pods hold them up.
	goneLimit = 40 * time.Second
	// lateLimit bounds the rest of the wait, if none do. Kubernetes' garbage
	// collector, which has to finish the deletions, may need a minute to come
	// back after an outage of the API server.
	lateLimit = 2 * time.Minute
)

// removeWorkloads deletes what runs, and waits until it has ended.
func removeWorkloads(ctx context.Context, c client.Client, m chart.Manifests, force bool, progress wait.Progress) error {
	var workloads []*unstructured.Unstructured
	for _, object := range m.Objects {
		if kind := object.GetKind(); (kind == "DaemonSet" || kind == "Deployment") && object.GetName() != sweepName {
			workloads = append(workloads, object)
		}
	}
	return removeAll(ctx, c, workloads, force, progress)
}

// Remove deletes the chart's objects in the reverse of the order in which they
// are applied, then the CRDs and with them every object of the fabric, and
// waits until all are gone. Pods on nodes that do not answer hold that up; with
// force they are given up.
func Remove(ctx context.Context, c client.Client, m chart.Manifests, force bool, progress wait.Progress) error {
	return removeAll(ctx, c, append(slices.Clone(m.CRDs), m.Objects...), force, progress)
}

func removeAll(ctx context.Context, c client.Client, objects []*unstructured.Unstructured, force bool, progress wait.Progress) error {
	for _, object := range slices.Backward(objects) {
		if err := remove(ctx, c, object); err != nil {
			return err
		}
	}
	if force {
		if err := giveUpPods(ctx, c, progress); err != nil {
			return err
		}
	}
	left := func(ctx context.Context) (string, error) { return remaining(ctx, c, objects) }
	err := wait.Until(ctx, goneLimit, progress, left)
	timeout := &wait.TimeoutError{}
	if !errors.As(err, &timeout) {
		return err
	}
	if stuck, err := stuckPods(ctx, c); err == nil && len(stuck) > 0 {
		return fmt.Errorf("pods cannot end on nodes that do not answer (%s): bring these nodes back and uninstall again, or add --force to give the pods up",
			strings.Join(nodesOf(stuck), ", "))
	}
	if err := wait.Until(ctx, lateLimit, progress, left); !errors.As(err, &timeout) {
		return err
	}
	return fmt.Errorf("wait for the deletion: %w; it goes on by itself, `kubectl -n %s get all` shows what is left", timeout, v1alpha1.SystemNamespace)
}

func remove(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	err := c.Delete(ctx, reference(object), client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err != nil && !kube.Missing(err) {
		return kube.Explain(err, "delete", object.GetKind()+" "+object.GetName())
	}
	return nil
}

// remaining names an object that still exists.
func remaining(ctx context.Context, c client.Reader, objects []*unstructured.Unstructured) (string, error) {
	for _, object := range objects {
		left := reference(object)
		err := c.Get(ctx, client.ObjectKeyFromObject(object), left)
		if kube.Missing(err) {
			continue
		}
		if err != nil {
			return "", kube.Explain(err, "read", object.GetKind()+" "+object.GetName())
		}
		return fmt.Sprintf("deleting %s %s", object.GetKind(), object.GetName()), nil
	}
	return "", nil
}

func reference(object *unstructured.Unstructured) *unstructured.Unstructured {
	r := &unstructured.Unstructured{}
	r.SetGroupVersionKind(object.GroupVersionKind())
	r.SetNamespace(object.GetNamespace())
	r.SetName(object.GetName())
	return r
}
