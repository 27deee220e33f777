package peering

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	// Grants are what the other may do here. What is not said is as granted
	// already; for a new peer, all pods and nothing else.
	Grants Grants
}

// Outcome is how one side sees the other in the end.
type Outcome struct {
	ClusterID v1alpha1.ClusterID         `json:"clusterID"`
	Identity  v1alpha1.Identity          `json:"identity"`
	Peer      string                     `json:"peer"`
	Granted   v1alpha1.AccessSpec        `json:"granted"`
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
	known := make([]*v1alpha1.ForeignCluster, 2)
	for i, side := range []Side{a, b} { // both, before anything is written
		if known[i], outcomes[i], err = resolve(ctx, side, selves[i], selves[1-i]); err != nil {
			return nil, err
		}
	}
	for i, side := range []Side{a, b} {
		if err := write(ctx, side, selves[1-i], known[i], &outcomes[i]); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", selves[i].ClusterID, err)
		}
		progress(fmt.Sprintf("%s: ForeignCluster %s is written; %s", selves[i].ClusterID, outcomes[i].Peer, strings.Join(Granted(outcomes[i]), "; ")))
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
		ordinal := [2]string{"first", "other"}[i]
		err := wait.Until(ctx, recordLimit, progress, func(ctx context.Context) (string, error) {
			selves[i], last = ReadSelf(ctx, side)
			if last == nil || errors.Is(last, kube.ErrNotInstalled) || apierrors.IsForbidden(last) {
				return "", nil // time mends none of these
			}
			return fmt.Sprintf("waiting for the record of the %s cluster", ordinal), last
		})
		switch {
		case errors.Is(last, kube.ErrNotInstalled):
			return selves, fmt.Errorf("%s cluster: %w", ordinal, last)
		case last != nil && ctx.Err() == nil:
			return selves, last
		case err != nil:
			return selves, err
		}
	}
	return selves, nil
}

// resolve finds out under which name a side knows the other, and the object by
// which it does, nil if there is none yet.
func resolve(ctx context.Context, on Side, self, other Self) (*v1alpha1.ForeignCluster, Outcome, error) {
	outcome := Outcome{ClusterID: self.ClusterID, Identity: self.Identity, Peer: on.LocalName}
	known, err := Known(ctx, on, other.Identity)
	if err != nil {
		return nil, outcome, fmt.Errorf("cluster %s: %w", self.ClusterID, err)
	}
	switch {
	case known != nil && known.DeletionTimestamp != nil:
		err = fmt.Errorf("cluster %s is just parting from %s: wait until `kubectl get foreigncluster %s` finds nothing, then peer again", self.ClusterID, known.Name, known.Name)
	case known != nil && on.LocalName != "" && on.LocalName != known.Name:
		err = fmt.Errorf("cluster %s knows this peer as %q already: leave the new name %q away, or run `weftctl unpeer %s` first", self.ClusterID, known.Name, on.LocalName, known.Name)
	case known != nil:
		outcome.Peer = known.Name
	default:
		outcome.Peer = cmp.Or(outcome.Peer, string(other.ClusterID))
		err = nameIsFree(ctx, on, self, outcome.Peer)
	}
	if err == nil && slices.Contains(on.Grants.Transit, outcome.Peer) {
		err = fmt.Errorf("cluster %s cannot forward between %s and itself: name other clusters for transit", self.ClusterID, outcome.Peer)
	}
	return known, outcome, err
}

// write makes other known on a side, or changes what it may do there.
func write(ctx context.Context, on Side, other Self, known *v1alpha1.ForeignCluster, outcome *Outcome) error {
	if known != nil {
		return amend(ctx, on, other, known, outcome)
	}
	outcome.Granted = on.Grants.Over(fresh())
	object := other.ForeignCluster(outcome.Peer, outcome.Granted)
	err := on.Create(ctx, object, client.FieldOwner(kube.FieldManager))
	return kube.Explain(err, "create", "ForeignCluster "+outcome.Peer)
}

// amend gives a ForeignCluster that exists the newest record and the grants
// that are said. One that weft-controller made for a hub or an introduction
// becomes an admin's, as if new: nobody has granted it anything yet.
func amend(ctx context.Context, on Side, other Self, known *v1alpha1.ForeignCluster, outcome *Outcome) error {
	grants, base := on.Grants, known.Spec.Access
	spec := map[string]any{"record": other.Record}
	if !known.Spec.MadeByAdmin() {
		grants, base = everything(grants.Over(fresh())), fresh()
		spec["reachedThrough"], spec["introducedBy"] = nil, nil
	}
	if !known.Spec.IsAccepted() {
		spec["accepted"] = nil
	}
	if access := grants.patch(); len(access) > 0 {
		spec["access"] = access
	}
	outcome.Granted = grants.Over(base)
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return fmt.Errorf("encode ForeignCluster %s: %w", outcome.Peer, err)
	}
	err = on.Patch(ctx, known.DeepCopy(), client.RawPatch(types.MergePatchType, data), client.FieldOwner(kube.FieldManager))
	return kube.Explain(err, "change", "ForeignCluster "+outcome.Peer)
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

func firewallHint(selves [2]Self) string {
	hint := "check that UDP"
	for i, self := range selves {
		if self.Reachable {
			hint += fmt.Sprintf(" port %d of the gateways of %s can be reached from %s,", self.LanePort, self.ClusterID, selves[1-i].ClusterID)
		}
	}
	return hint + " and see `weftctl status`"
}
