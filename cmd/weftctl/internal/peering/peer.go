package peering

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// Side is one of the two clusters to be joined.
type Side struct {
	client.Client
	// LocalName under which this side knows the other; empty for the other's ID.
	LocalName string
	// Grant is what the other may do here; empty for what is granted already,
	// and all pods if there is nothing yet.
	Grant v1alpha1.PodAccess
}

// Outcome is how one side sees the other in the end.
type Outcome struct {
	ClusterID v1alpha1.ClusterID         `json:"clusterID"`
	Identity  v1alpha1.Identity          `json:"identity"`
	Peer      string                     `json:"peer"`
	Granted   v1alpha1.PodAccess         `json:"granted"`
	Connected bool                       `json:"connected"`
	Message   string                     `json:"message,omitempty"`
	Networks  []v1alpha1.RemappedNetwork `json:"networks,omitempty"`
}

// recordLimit bounds the wait for both records, right after an install.
const recordLimit = time.Minute

// Peer writes a ForeignCluster on each side and waits for at most limit until
// both see the other over the data path; with limit 0 it does not wait.
func Peer(ctx context.Context, a, b Side, limit time.Duration, progress wait.Progress) ([]Outcome, error) {
	selves, err := records(ctx, a, b, progress)
	if err != nil {
		return nil, err
	}
	if selves[0].Identity == selves[1].Identity {
		return nil, fmt.Errorf("both kubeconfigs lead to cluster %s (%s): name the other cluster with --peer-kubeconfig or --peer-context", selves[0].ClusterID, selves[0].Identity)
	}
	if !selves[0].Reachable && !selves[1].Reachable {
		return nil, fmt.Errorf("neither %s nor %s publishes an endpoint: one of them needs exposure HostPort or Static (`weftctl install --exposure ...`)", selves[0].ClusterID, selves[1].ClusterID)
	}
	outcomes := make([]Outcome, 2)
	for i, side := range []Side{a, b} {
		if outcomes[i], err = introduce(ctx, side, selves[i], selves[1-i]); err != nil {
			return nil, err
		}
		progress(fmt.Sprintf("%s: ForeignCluster %s applied; %s", selves[i].ClusterID, outcomes[i].Peer, Granted(outcomes[i])))
	}
	if limit == 0 {
		return outcomes, nil
	}
	err = wait.Until(ctx, limit, progress, func(ctx context.Context) (string, error) {
		return unconnected(ctx, []Side{a, b}, outcomes)
	})
	timeout := &wait.TimeoutError{}
	if errors.As(err, &timeout) {
		err = fmt.Errorf("the clusters know each other but are not connected: %w; %s", timeout, firewallHint(selves))
	}
	return outcomes, err
}

// records reads both sides, waiting for records that are about to be complete.
func records(ctx context.Context, a, b Side, progress wait.Progress) ([2]Self, error) {
	var selves [2]Self
	for i, side := range []Side{a, b} {
		var last error
		err := wait.Until(ctx, recordLimit, progress, func(ctx context.Context) (string, error) {
			selves[i], last = ReadSelf(ctx, side)
			if errors.Is(last, kube.ErrNotInstalled) {
				return "", nil
			}
			return "", last
		})
		switch {
		case errors.Is(last, kube.ErrNotInstalled):
			return selves, fmt.Errorf("%s cluster: %w", [2]string{"first", "other"}[i], last)
		case err != nil && last != nil:
			return selves, last
		case err != nil:
			return selves, err
		}
	}
	return selves, nil
}

// introduce makes other known on a side.
func introduce(ctx context.Context, on Side, self, other Self) (Outcome, error) {
	outcome := Outcome{ClusterID: self.ClusterID, Identity: self.Identity, Peer: on.LocalName, Granted: on.Grant}
	known, err := Known(ctx, on, other.Identity)
	if err != nil {
		return outcome, fmt.Errorf("cluster %s: %w", self.ClusterID, err)
	}
	switch {
	case known != nil && known.DeletionTimestamp != nil:
		return outcome, fmt.Errorf("cluster %s is just parting from %s: wait until `kubectl get foreigncluster %s` finds nothing, then peer again", self.ClusterID, known.Name, known.Name)
	case known != nil && on.LocalName != "" && on.LocalName != known.Name:
		return outcome, fmt.Errorf("cluster %s knows this peer as %q already: leave the new name %q away, or run `weftctl unpeer %s` first", self.ClusterID, known.Name, on.LocalName, known.Name)
	case known != nil:
		outcome.Peer = known.Name
	case outcome.Peer == "":
		outcome.Peer = string(other.ClusterID)
	}
	if outcome.Granted == "" {
		outcome.Granted = v1alpha1.PodAccessAll
		if known != nil && known.Spec.Access.Pods != "" {
			outcome.Granted = known.Spec.Access.Pods
		}
	}
	if known == nil {
		if err := nameIsFree(ctx, on, self, outcome.Peer); err != nil {
			return outcome, err
		}
	}
	object := other.ForeignCluster(outcome.Peer, outcome.Granted)
	err = on.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(kube.FieldManager), client.ForceOwnership)
	if err != nil {
		return outcome, fmt.Errorf("cluster %s: %w", self.ClusterID, kube.Explain(err, "apply", "ForeignCluster "+outcome.Peer))
	}
	return outcome, nil
}

func nameIsFree(ctx context.Context, on Side, self Self, name string) error {
	err := on.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.ForeignCluster{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", self.ClusterID, kube.Explain(err, "read", "ForeignCluster "+name))
	}
	return fmt.Errorf("cluster %s knows another identity as %q: if that cluster was reinstalled, run `weftctl unpeer %s` against %s first, then peer again; if it is another cluster, give this one another local name with --name (or --peer-name on the other side)",
		self.ClusterID, name, name, self.ClusterID)
}

// unconnected says which side does not see the other yet, and why.
func unconnected(ctx context.Context, sides []Side, outcomes []Outcome) (string, error) {
	pending := ""
	for i, side := range sides {
		fcl := &v1alpha1.ForeignCluster{}
		if err := side.Get(ctx, client.ObjectKey{Name: outcomes[i].Peer}, fcl); err != nil {
			return "", fmt.Errorf("cluster %s: %w", outcomes[i].ClusterID, kube.Explain(err, "read", "ForeignCluster "+outcomes[i].Peer))
		}
		outcomes[i].Networks = fcl.Status.Networks
		outcomes[i].Connected, outcomes[i].Message = Connected(fcl)
		if !outcomes[i].Connected {
			if pending != "" {
				pending += "; "
			}
			pending += fmt.Sprintf("%s: %s", outcomes[i].ClusterID, outcomes[i].Message)
		}
	}
	return pending, nil
}

// Connected reports whether probes over the data path are answered, and if not
// the first condition that is missing, in the order in which they come true.
func Connected(fcl *v1alpha1.ForeignCluster) (bool, string) {
	if meta.IsStatusConditionTrue(fcl.Status.Conditions, v1alpha1.ConditionConnected) {
		return true, ""
	}
	for _, kind := range []string{
		v1alpha1.ConditionRecordValid, v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady, v1alpha1.ConditionConnected,
	} {
		condition := meta.FindStatusCondition(fcl.Status.Conditions, kind)
		if condition == nil {
			return false, "waiting for weft-controller to report " + kind + " of " + fcl.Name
		}
		if condition.Status != metav1.ConditionTrue {
			return false, fmt.Sprintf("%s is not %s yet: %s", fcl.Name, kind, condition.Message)
		}
	}
	return false, "waiting for probes of " + fcl.Name
}

// Granted is the sentence that says what the peer may do.
func Granted(o Outcome) string {
	if o.Granted == v1alpha1.PodAccessAll {
		return fmt.Sprintf("%s may open flows to all pods of %s", o.Peer, o.ClusterID)
	}
	return fmt.Sprintf("%s may open no flows to %s, only answer those of %s", o.Peer, o.ClusterID, o.ClusterID)
}

func firewallHint(selves [2]Self) string {
	hint := "check that UDP"
	for i, self := range selves {
		if self.Reachable {
			hint += fmt.Sprintf(" port %d of the gateways of %s can be reached from %s,", self.LanePort, self.ClusterID, selves[1-i].ClusterID)
		}
	}
	return hint + " and see `weftctl status`"
}
