package peering

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// partLimit bounds the parting of one side: the controller gives the goodbye
// 5 s and the agents 15 s.
const partLimit = 25 * time.Second

// ErrGone says that there was nothing to part from.
var ErrGone = errors.New("there is no ForeignCluster")

// Part deletes the ForeignCluster and waits until the controller has taken the
// peering apart. With force, an object that the controller does not release in
// time loses its finalizer, and what it made stays until the controller or the
// agents come back.
func Part(ctx context.Context, c client.Client, name string, force bool, progress wait.Progress) error {
	fcl := &v1alpha1.ForeignCluster{ObjectMeta: objectMeta(name)}
	err := c.Delete(ctx, fcl)
	if kube.Missing(err) {
		return fmt.Errorf("%w %s: `weftctl status` lists the peers", ErrGone, name)
	}
	if err != nil {
		return kube.Explain(err, "delete", "ForeignCluster "+name)
	}
	return waitGone(ctx, c, name, partLimit, force, progress)
}

// waitGone waits until a ForeignCluster that is being deleted is gone.
func waitGone(ctx context.Context, c client.Client, name string, limit time.Duration, force bool, progress wait.Progress) error {
	err := wait.Until(ctx, limit, progress, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.ForeignCluster{})
		if kube.Missing(err) {
			return "", nil
		}
		return "weft-controller takes down the peering with " + name, kube.Explain(err, "read", "ForeignCluster "+name)
	})
	timeout := &wait.TimeoutError{}
	if !errors.As(err, &timeout) {
		return err
	}
	if !force {
		return fmt.Errorf("ForeignCluster %s is marked for deletion, but weft-controller has not released it in %s: see that it runs (`kubectl -n %s get pods`), or repeat with --force to drop its finalizer",
			name, limit, v1alpha1.SystemNamespace)
	}
	return DropFinalizer(ctx, c, name)
}

// DropFinalizer releases a ForeignCluster in place of its controller. What the
// controller would have told the other side stays unsaid.
func DropFinalizer(ctx context.Context, c client.Client, name string) error {
	fcl := &v1alpha1.ForeignCluster{ObjectMeta: objectMeta(name)}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := c.Patch(ctx, fcl, patch); err != nil && !apierrors.IsNotFound(err) {
		return kube.Explain(err, "drop the finalizer of", "ForeignCluster "+name)
	}
	// Without its controller nobody else removes the rows.
	neighbor := &v1alpha1.Neighbor{ObjectMeta: objectMeta(name)}
	if err := c.Delete(ctx, neighbor); err != nil && !apierrors.IsNotFound(err) {
		return kube.Explain(err, "delete", "Neighbor "+name)
	}
	return nil
}
