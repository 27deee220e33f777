package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/install"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

func newInstall(env *environment) *cobra.Command {
	var request install.Request
	var limit time.Duration
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "install --cluster-id ID",
		Short: "Install Weft into a cluster, or upgrade it",
		Long: `Applies the chart to the cluster and waits until every node is ready.

Installing again is safe: it upgrades, and keeps what FabricConfig "default" says except what flags name.`,
		Example: `  weftctl install --cluster-id berlin
  weftctl install --cluster-id edge --exposure None          # behind NAT
  weftctl install --cluster-id milan --endpoint gw.example.org --gateway-selector weft.dev/gateway=true`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := request.Check(); err != nil {
				return usageError{err}
			}
			if dryRun {
				return env.printManifests(request)
			}
			c, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			result, err := install.Install(cmd.Context(), c, request, limit, env.progress)
			if err != nil {
				return err
			}
			return env.print(result, func(w io.Writer) { printInstalled(w, result) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.ClusterID, "cluster-id", "", "name that this cluster gives itself; fixed by the first install")
	flags.StringSliceVar(&request.PodCIDRs, "pod-cidr", nil, "pod CIDR, if it cannot be detected (repeatable)")
	flags.StringToStringVar(&request.GatewaySelector, "gateway-selector", nil, "label KEY=VALUE of the nodes that become gateways (default: one node is picked)")
	flags.StringVar(&request.Exposure, "exposure", "", "how gateways are reached: "+install.Exposures()+" (default HostPort)")
	flags.StringSliceVar(&request.Endpoints, "endpoint", nil, "address or host name that peers dial, for exposure Static (repeatable)")
	flags.StringVar(&request.Image, "image", "", "container image (default the chart's)")
	flags.StringArrayVarP(&request.ValuesFiles, "values", "f", nil, "file with chart values (repeatable)")
	flags.StringArrayVar(&request.Set, "set", nil, "chart value KEY=VALUE (repeatable)")
	flags.DurationVar(&limit, "wait", 3*time.Minute, "how long to wait for readiness; 0 does not wait")
	flags.BoolVar(&dryRun, "dry-run", false, "print the manifests for a new cluster and apply nothing")
	return cmd
}

// dryRunVersion is the Kubernetes version that manifests are printed for: the
// chart does not depend on it beyond the minimum.
const dryRunVersion = "v1.30.0"

func (e *environment) printManifests(request install.Request) error {
	manifests, err := install.Render(nil, request, dryRunVersion)
	if err != nil {
		return err
	}
	for _, object := range append(manifests.CRDs, manifests.Objects...) {
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		fmt.Fprintf(e.out, "---\n%s", data)
	}
	return nil
}

func printInstalled(w io.Writer, r install.Result) {
	state := "is ready"
	if !r.Ready {
		state = "is applied; `weftctl status` says when it is ready"
	}
	fmt.Fprintf(w, "Cluster %s %s.\n", r.ClusterID, state)
	if r.Identity != "" {
		fmt.Fprintf(w, "  identity  %s\n", r.Identity)
	}
	for _, network := range r.Networks {
		fmt.Fprintf(w, "  network   %s %s\n", network.Name, network.CIDR)
	}
	if len(r.Gateways) > 0 {
		fmt.Fprintf(w, "  gateways  %s (exposure %s)\n", strings.Join(r.Gateways, ", "), r.Exposure)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "Note: %s.\n", note)
	}
}
