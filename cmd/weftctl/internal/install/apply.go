package install

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
	"github.com/weft-fabric/weft/tools/chart"
)

// crdLimit bounds the wait for the API server to serve the new kinds.
const crdLimit = 30 * time.Second

// Apply makes the cluster's objects what the manifests say, by server-side
// apply: CRDs first, and the rest once they are served. Applying the same
// manifests again changes nothing.
func Apply(ctx context.Context, c client.Client, m chart.Manifests, progress wait.Progress) error {
	progress(fmt.Sprintf("applying %d CRDs", len(m.CRDs)))
	for _, object := range m.CRDs {
		if err := applyCRD(ctx, c, object, progress); err != nil {
			return err
		}
	}
	err := wait.Until(ctx, crdLimit, progress, func(ctx context.Context) (string, error) { return unestablished(ctx, c, m.CRDs) })
	if err != nil {
		return fmt.Errorf("wait for the CRDs: %w; look at the API server's log", err)
	}
	if err := tryConfig(ctx, c, m.Objects); err != nil {
		return err
	}
	progress(fmt.Sprintf("applying %d objects", len(m.Objects)))
	for _, object := range m.Objects {
		if err := apply(ctx, c, object); err != nil {
			return err
		}
	}
	return nil
}

// tryConfig has the API server check the FabricConfig, which is applied last,
// before anything else is changed.
func tryConfig(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() == "FabricConfig" {
			return apply(ctx, c, object, client.DryRunAll)
		}
	}
	return nil
}

// apply takes over fields from other managers: the manifests are the one
// source of these objects, and a user's wishes come in as values.
func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(kube.FieldManager), client.ForceOwnership)
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), options...)
	return kube.Explain(err, "apply", object.GetKind()+" "+object.GetName())
}

// unestablished names a CRD that the API server does not serve yet.
func unestablished(ctx context.Context, c client.Reader, crds []*unstructured.Unstructured) (string, error) {
	for _, object := range crds {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), crd); err != nil {
			return "", kube.Explain(err, "read", "CRD "+object.GetName())
		}
		if !established(crd) {
			return "waiting for the API server to serve " + object.GetName(), nil
		}
	}
	return "", nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
