package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
	"github.com/weft-fabric/weft/tools/chart"
)

// Result is what an installation ended with.
type Result struct {
	ClusterID v1alpha1.ClusterID    `json:"clusterID"`
	Identity  v1alpha1.Identity     `json:"identity,omitempty"`
	Networks  []v1alpha1.OwnNetwork `json:"networks,omitempty"`
	Gateways  []string              `json:"gateways,omitempty"`
	Exposure  v1alpha1.Exposure     `json:"exposure"`
	Objects   int                   `json:"objects"`
	Ready     bool                  `json:"ready"`
	Notes     []string              `json:"notes,omitempty"`
	// DNS says whether the cluster's DNS leads to weft-dns.
	DNS    dns.Standing           `json:"dns"`
	Config *v1alpha1.FabricConfig `json:"-"`
}

// Render returns the manifests for the request on a cluster of the given
// Kubernetes version whose FabricConfig spec is existing (nil if none).
func Render(existing *v1alpha1.FabricConfigSpec, request Request, version string) (chart.Manifests, error) {
	values, err := Values(existing, request)
	if err != nil {
		return chart.Manifests{}, err
	}
	return chart.Render(values, version)
}

// Install applies Weft to the cluster and waits for at most limit until it is
// ready there; with limit 0 it does not wait.
func Install(ctx context.Context, c *kube.Cluster, request Request, limit time.Duration, progress wait.Progress) (Result, error) {
	existing, err := existingSpec(ctx, c)
	if err != nil {
		return Result{}, err
	}
	manifests, err := Render(existing, request, c.Version)
	if err != nil {
		return Result{}, err
	}
	if err := Apply(ctx, c, manifests, progress); err != nil {
		return Result{}, err
	}
	var seen Observed
	look := func(ctx context.Context) (string, error) {
		observed, err := Observe(ctx, c)
		if err != nil {
			return "", err
		}
		seen = observed
		return seen.Pending(), nil
	}
	if limit == 0 {
		_, err = look(ctx)
	} else {
		err = wait.Until(ctx, limit, progress, look)
	}
	timeout := &wait.TimeoutError{}
	if errors.As(err, &timeout) {
		err = fmt.Errorf("everything is applied but %w; `weftctl status` says more, and running the same install again is safe", timeout)
	}
	result := summarize(seen)
	result.DNS = dns.Look(ctx, c)
	result.Objects = len(manifests.CRDs) + len(manifests.Objects)
	return result, err
}

// existingSpec returns what an earlier install left, nil if nothing did.
func existingSpec(ctx context.Context, c *kube.Cluster) (*v1alpha1.FabricConfigSpec, error) {
	config, err := kube.FabricConfig(ctx, c)
	switch {
	case errors.Is(err, kube.ErrNotInstalled):
		return nil, nil
	case err != nil:
		return nil, err
	case config.DeletionTimestamp != nil:
		return nil, errors.New("an uninstall is under way in this cluster: let `weftctl uninstall` end before installing again")
	}
	return &config.Spec, nil
}

func summarize(o Observed) Result {
	result := Result{
		ClusterID: o.Config.Spec.ClusterID, Identity: o.Config.Status.Identity, Networks: o.Config.Status.Networks,
		Exposure: o.Config.Spec.Gateways.Exposure, Ready: o.Pending() == "", Config: &o.Config,
	}
	for _, node := range o.Nodes {
		if node.Spec.GatewayID != 0 {
			result.Gateways = append(result.Gateways, node.Name)
		}
	}
	for _, d := range o.DaemonSets {
		if old := d.Status.NumberReady - d.Status.UpdatedNumberScheduled; d.Name == "weft-wireguard" && old > 0 {
			result.Notes = append(result.Notes, fmt.Sprintf(
				"weft-wireguard keeps its former version on %d nodes, so that tunnels served in user space stay up; delete its pods when a pause of some seconds suits", old))
		}
	}
	return result
}
