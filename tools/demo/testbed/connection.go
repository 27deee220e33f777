package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// reason, and returns it; an empty phase or reason is any.
func (c *Cluster) WaitPhase(ctx context.Context, name string, phase v1alpha1.ConnectionPhase, reason string, limit time.Duration) (v1alpha1.ForeignClusterConnection, error) {
	var fcc v1alpha1.ForeignClusterConnection
	last := "it does not exist"
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &fcc); err != nil {
			last = err.Error()
			return false, nil
		}
		last = DescribeConnection(fcc)
		return (phase == "" || fcc.Status.Phase == phase) && (reason == "" || ConnectionReason(fcc).Reason == reason), nil
	})
	if err != nil {
		return fcc, fmt.Errorf("wait %s for foreignclusterconnection/%s of cluster %s to be %s %s: %s", limit, name, c.Name, phase, reason, last)
	}
	return fcc, nil
}

// DescribeConnection says in one line how far a connection has come.
func DescribeConnection(fcc v1alpha1.ForeignClusterConnection) string {
	condition := ConnectionReason(fcc)
	parts := []string{fmt.Sprintf("%s (%s: %s)", fcc.Status.Phase, condition.Reason, condition.Message)}
	for _, side := range fcc.Status.Sides {
		parts = append(parts, fmt.Sprintf("%s %s, path %s, round trip %.1f ms directly, %.1f ms through the hub", side.Name, side.State,
			cmp.Or(side.ActivePath, "unknown"), float64(side.DirectRTTMicroseconds)/1000, float64(side.HubRTTMicroseconds)/1000))
	}
	return strings.Join(parts, "; ")
}

// ConnectionReason is the condition that carries the reason of a connection's
// phase; it is empty before there is one.
func ConnectionReason(fcc v1alpha1.ForeignClusterConnection) metav1.Condition {
	if found := meta.FindStatusCondition(fcc.Status.Conditions, v1alpha1.ConditionConnected); found != nil {
		return *found
	}
	return metav1.Condition{}
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

// WaitPolicy waits until the agents are told which paths to a foreign cluster
// traffic may take.
func (c *Cluster) WaitPolicy(ctx context.Context, foreign string, want v1alpha1.PathPolicy, limit time.Duration) error {
	var neighbor v1alpha1.Neighbor
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Name: foreign}, &neighbor)
		return err == nil && cmp.Or(neighbor.Spec.Paths, v1alpha1.PathAny) == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for neighbor/%s of cluster %s to have paths %s: they are %q", limit, foreign, c.Name, want, neighbor.Spec.Paths)
	}
	return nil
}

// WaitNotIntroduced waits until no introduction of a foreign cluster stands, and
// its direct link is gone.
func (c *Cluster) WaitNotIntroduced(ctx context.Context, foreign string, limit time.Duration) error {
	var fcl v1alpha1.ForeignCluster
	var neighbor v1alpha1.Neighbor
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		key := client.ObjectKey{Name: foreign}
		if err := errors.Join(c.Get(ctx, key, &fcl), c.Get(ctx, key, &neighbor)); err != nil {
			return false, nil
		}
		return len(fcl.Spec.IntroducedBy)+len(fcl.Status.Introductions)+len(neighbor.Spec.Peers) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for cluster %s to have no introduction of %s: it is introduced by %v (%v), and neighbor/%s has %d gateways",
			limit, c.Name, foreign, fcl.Spec.IntroducedBy, fcl.Status.Introductions, foreign, len(neighbor.Spec.Peers))
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
