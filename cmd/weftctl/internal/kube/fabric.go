package kube

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// FabricConfig reads the cluster's one FabricConfig; ErrNotInstalled if there
// is none.
func FabricConfig(ctx context.Context, c client.Reader) (*v1alpha1.FabricConfig, error) {
	config := &v1alpha1.FabricConfig{}
	err := c.Get(ctx, client.ObjectKey{Name: v1alpha1.FabricConfigName}, config)
	if Missing(err) {
		return nil, ErrNotInstalled
	}
	if err != nil {
		return nil, Explain(err, "read", "FabricConfig "+v1alpha1.FabricConfigName)
	}
	return config, nil
}
