package testbed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Connection is the manifest of a ForeignClusterConnection, as a user writes it.
func Connection(name, a, b string, mode v1alpha1.ConnectionMode) string {
	return fmt.Sprintf(`apiVersion: net.weft.dev/v1alpha1
kind: ForeignClusterConnection
metadata:
  name: %s
spec:
  foreignClusterA: %s
  foreignClusterB: %s
  mode: %s
`, name, a, b, mode)
}

// Apply runs `kubectl apply` on a manifest.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	_, err := output(ctx, []byte(manifest), c.lab.Program("lab"), "kubectl", c.Name, "apply", "-f", "-")
	return err
}

// WaitPhase waits until a connection has a phase and its condition Connected a
// reason; an empty reason is any. It returns the connection.
func (c *Cluster) WaitPhase(ctx context.Context, name string, phase v1alpha1.ConnectionPhase, reason string, limit time.Duration) (v1alpha1.ForeignClusterConnection, error) {
	var fcc v1alpha1.ForeignClusterConnection
	last := "it does not exist"
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &fcc); err != nil {
			last = err.Error()
			return false, nil
		}
		last = DescribeConnection(fcc)
		return fcc.Status.Phase == phase && (reason == "" || connected(fcc).Reason == reason), nil
	})
	if err != nil {
		return fcc, fmt.Errorf("wait %s for foreignclusterconnection/%s of cluster %s to be %s %s: %s", limit, name, c.Name, phase, reason, last)
	}
	return fcc, nil
}

// DescribeConnection says in one line how far a connection has come.
func DescribeConnection(fcc v1alpha1.ForeignClusterConnection) string {
	condition := connected(fcc)
	parts := []string{fmt.Sprintf("phase %q, reason %q: %s", fcc.Status.Phase, condition.Reason, condition.Message)}
	for _, side := range fcc.Status.Sides {
		parts = append(parts, fmt.Sprintf("%s is %s, sends by path %q", side.Name, side.State, side.ActivePath))
	}
	return strings.Join(parts, "; ")
}

// connected is the condition that carries the reason of a connection's phase.
func connected(fcc v1alpha1.ForeignClusterConnection) (condition struct{ Reason, Message string }) {
	if found := meta.FindStatusCondition(fcc.Status.Conditions, v1alpha1.ConditionConnected); found != nil {
		condition.Reason, condition.Message = found.Reason, found.Message
	}
	return condition
}

// Disconnect deletes a connection and waits until it is gone.
func (c *Cluster) Disconnect(ctx context.Context, name string, limit time.Duration) error {
	fcc := &v1alpha1.ForeignClusterConnection{}
	fcc.Name = name
	if err := c.Delete(ctx, fcc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete foreignclusterconnection/%s of cluster %s: %w", name, c.Name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Name: name}, fcc)), nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for foreignclusterconnection/%s of cluster %s to be gone: it has finalizers %v, %s",
			limit, name, c.Name, fcc.Finalizers, DescribeConnection(*fcc))
	}
	return nil
}

// WaitVia waits until the cluster sends to a foreign one through a neighbor,
// the foreign cluster itself or a hub, and the path is up.
func (c *Cluster) WaitVia(ctx context.Context, foreign, via string, limit time.Duration) error {
	last := "it does not exist"
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		var fcl v1alpha1.ForeignCluster
		if err := c.Get(ctx, client.ObjectKey{Name: foreign}, &fcl); err != nil {
			last = err.Error()
			return false, nil
		}
		last = DescribePaths(fcl)
		return slices.ContainsFunc(fcl.Status.Paths, func(p v1alpha1.PathStatus) bool {
			return p.Active && p.Via == via && p.State == v1alpha1.PathUp
		}), nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for cluster %s to reach %s through %s: %s", limit, c.Name, foreign, via, last)
	}
	return nil
}

// DescribePaths says in one line how a foreign cluster is reached.
func DescribePaths(fcl v1alpha1.ForeignCluster) string {
	parts := []string{describeConditions(fcl)}
	for _, p := range fcl.Status.Paths {
		use := "standing by"
		if p.Active {
			use = "active"
		}
		parts = append(parts, fmt.Sprintf("path via %s %s, %s (%s), %.1f ms", p.Via, p.State, use, p.Reason, float64(p.RTTMicroseconds)/1000))
	}
	return strings.Join(parts, "; ")
}
