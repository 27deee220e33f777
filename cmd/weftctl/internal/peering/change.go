package peering

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// Change grants the foreign cluster of that name what is said, and leaves the
// rest as it is.
func Change(ctx context.Context, c client.Client, name string, grants Grants) error {
	fcl, err := Named(ctx, c, name)
	if err != nil {
		return err
	}
	switch {
	case grants.Pods != "" && !fcl.Spec.MadeByAdmin():
		known := append(slices.Clone(fcl.Spec.ReachedThrough), fcl.Spec.IntroducedBy...)
		return fmt.Errorf("weft-controller made ForeignCluster %s and sets its access to pods by what is granted as --introduced to those that it is known through (%s): change it there", name, strings.Join(known, ", "))
	case slices.Contains(grants.Transit, name):
		return fmt.Errorf("nothing can be forwarded between %s and itself: name other clusters for transit", name)
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"access": grants.patch()}})
	if err != nil {
		return fmt.Errorf("encode access of ForeignCluster %s: %w", name, err)
	}
	err = c.Patch(ctx, fcl, client.RawPatch(types.MergePatchType, data), client.FieldOwner(kube.FieldManager))
	return kube.Explain(err, "change", "ForeignCluster "+name)
}
