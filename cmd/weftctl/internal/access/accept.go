package access

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// Accepted is what accepting an introduction ended with.
type Accepted struct {
	Name         string            `json:"name"`
	Identity     v1alpha1.Identity `json:"identity"`
	IntroducedBy []string          `json:"introducedBy,omitempty"`
	// Changed is false if nothing had to be accepted.
	Changed bool `json:"changed"`
}

// Accept agrees to the introductions of a cluster, in place of the admin who
// is asked. Where nothing waits it changes nothing.
func Accept(ctx context.Context, c client.Client, name string) (Accepted, error) {
	fcl, err := peering.Named(ctx, c, name)
	if err != nil {
		return Accepted{}, err
	}
	accepted := Accepted{Name: name, Identity: fcl.Spec.Identity, IntroducedBy: fcl.Spec.IntroducedBy}
	if fcl.DeletionTimestamp != nil {
		return accepted, fmt.Errorf("ForeignCluster %s is being deleted, so there is nothing to accept: its introduction was withdrawn or somebody deleted it", name)
	}
	if fcl.Spec.IsAccepted() {
		return accepted, nil
	}
	accepted.Changed = true
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"accepted":true}}`))
	if err := c.Patch(ctx, fcl, patch, client.FieldOwner(kube.FieldManager)); err != nil {
		return accepted, kube.Explain(err, "accept", "ForeignCluster "+name)
	}
	return accepted, nil
}
