package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
	"github.com/weft-fabric/weft/tools/chart"
)

// controllerGrace is how long the controller waits for the nodes to clean
// themselves; nodesLimit bounds the wait for both.
const (
	controllerGrace = 60 * time.Second
	nodesLimit      = controllerGrace + 15*time.Second
)

// Leftovers is what an uninstall could not clean.
type Leftovers struct {
	// Connections whose providers were not told that they are withdrawn.
	Connections []string `json:"connections,omitempty"`
	// Nodes whose agents did not report that they cleaned up.
	Nodes []string `json:"nodes,omitempty"`
	// Peers whose side was not told.
	Peers []string `json:"peers,omitempty"`
	// Folders that may still be there on some nodes.
	Folders []string `json:"folders,omitempty"`
	// DNS is what is left to do for the cluster's DNS to forward nothing to Weft.
	DNS string `json:"dns,omitempty"`
	// CRDs of multi-cluster services that stay, because there are objects of them
	// that Weft did not make.
	CRDs []string `json:"crds,omitempty"`
}

// Uninstall takes Weft out of the cluster: first the connections that it made
// between others, then the peerings, then what the cluster's DNS forwards, then
// what is on the nodes, each by the programs that made it, then those programs
// and the API objects. With force it goes on where a program does not answer.
func Uninstall(ctx context.Context, c *kube.Cluster, force bool, progress wait.Progress) (Leftovers, error) {
	var left Leftovers
	values, err := installedImage(ctx, c)
	if err != nil {
		return left, err
	}
	manifests, err := chart.Render(values, c.Version)
	if err != nil {
		return left, err
	}
	if manifests.CRDs, err = ownCRDs(ctx, c, manifests.CRDs); err != nil {
		return left, err
	}
	if left.Connections, err = withdrawAll(ctx, c, force, progress); err != nil {
		return left, err
	}
	if left.Peers, err = partAll(ctx, c, force, progress); err != nil {
		return left, err
	}
	left.DNS = disableDNS(ctx, c, progress)
	if left.Nodes, err = releaseNodes(ctx, c, force, progress); err != nil {
		return left, err
	}
	stuck, err := stuckPods(ctx, c)
	if err != nil {
		return left, err
	}
	left.Nodes = union(left.Nodes, nodesOf(stuck))
	if err := removeWorkloads(ctx, c, manifests, force, progress); err != nil {
		return left, err
	}
	if err := removeImports(ctx, c, progress); err != nil {
		return left, err
	}
	if manifests.CRDs, left.CRDs, err = unused(ctx, c, manifests.CRDs); err != nil {
		return left, err
	}
	swept, err := sweep(ctx, c, manifests, progress)
	if err != nil {
		return left, err
	}
	if !swept {
		left.Folders = []string{"/var/lib/weft", "/run/weft", "/run/wireguard"}
	}
	return left, Remove(ctx, c, manifests, force, progress)
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// releaseNodes deletes the FabricConfig, which tells the agents to clean their
// nodes, and waits for them. It returns the nodes that have not reported back.
func releaseNodes(ctx context.Context, c client.Client, force bool, progress wait.Progress) ([]string, error) {
	config := &v1alpha1.FabricConfig{}
	config.Name = v1alpha1.FabricConfigName
	if err := c.Delete(ctx, config); kube.Missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, kube.Explain(err, "delete", "FabricConfig "+config.Name)
	}
	silent := &silentNodes{reported: map[string]bool{}}
	start := deletionTime(ctx, c, config)
	err := wait.Until(ctx, nodesLimit, progress, func(ctx context.Context) (string, error) {
		_, err := kube.FabricConfig(ctx, c)
		if errors.Is(err, kube.ErrNotInstalled) {
			return "", nil
		}
		if err == nil {
			err = silent.look(ctx, c)
		}
		return silent.pending(), err
	})
	timeout := &wait.TimeoutError{}
	switch {
	case err == nil && time.Since(start) < controllerGrace:
		// The controller lets go before its time only if all have reported, be
		// it between two looks of ours.
		return nil, nil
	case err == nil:
		return silent.names(), nil
	case !errors.As(err, &timeout):
		return nil, err
	case !force:
		return nil, fmt.Errorf("%w; start weft-controller and the agents (`kubectl -n %s get pods`) and uninstall again, or add --force to leave these nodes as they are",
			timeout, v1alpha1.SystemNamespace)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := c.Patch(ctx, config, patch); err != nil && !kube.Missing(err) {
		return nil, kube.Explain(err, "drop the finalizer of", "FabricConfig "+config.Name)
	}
	return silent.names(), nil
}

// deletionTime returns when the deletion began, which may have been an earlier
// uninstall.
func deletionTime(ctx context.Context, c client.Reader, config *v1alpha1.FabricConfig) time.Time {
	if err := c.Get(ctx, client.ObjectKeyFromObject(config), config); err == nil && config.DeletionTimestamp != nil {
		return config.DeletionTimestamp.Time
	}
	return time.Now()
}

// silentNodes keeps book of which nodes have reported.
type silentNodes struct {
	order    []string
	reported map[string]bool
}

func (s *silentNodes) look(ctx context.Context, c client.Reader) error {
	var nodes v1alpha1.FabricNodeList
	if err := c.List(ctx, &nodes); err != nil {
		return kube.Explain(err, "list", "FabricNodes")
	}
	for _, node := range nodes.Items {
		if _, seen := s.reported[node.Name]; !seen {
			s.order = append(s.order, node.Name)
			s.reported[node.Name] = false
		}
		ready := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady)
		if ready != nil && ready.Reason == v1alpha1.ReasonTornDown {
			s.reported[node.Name] = true
		}
	}
	return nil
}

func (s *silentNodes) names() []string {
	var names []string
	for _, name := range s.order {
		if !s.reported[name] {
			names = append(names, name)
		}
	}
	return names
}

func (s *silentNodes) pending() string {
	if names := s.names(); len(names) > 0 {
		return fmt.Sprintf("waiting for the agents to clean their nodes: %v", names)
	}
	return "all nodes are clean, waiting for weft-controller to let go"
}
