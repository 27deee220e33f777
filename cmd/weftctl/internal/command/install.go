package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/install"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

func newInstall(env *environment) *cobra.Command {
	var request install.Request
	var limit time.Duration
	var dryRun, enableDNS bool
	cmd := &cobra.Command{
		Use:   "install --cluster-id ID",
		Short: "Install Weft into a cluster, or upgrade it",
		Long: `Applies the chart to the cluster and waits until every node is ready.

Pods find services of other clusters by name once the cluster's DNS forwards clusterset.local to weft-dns. That is changed
only if you say so: by --dns, or later by ` + "`weftctl dns enable`" + `.

Installing again is safe: it upgrades, and keeps what FabricConfig "default" says except what flags name.`,
		Example: `  weftctl install --cluster-id berlin
  weftctl install --cluster-id edge --exposure None --dns    # behind NAT; CoreDNS forwards clusterset.local
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
			var failed error
			if enableDNS {
				result.DNS, failed = env.installDNS(cmd.Context(), c, limit)
			}
			if err := env.print(result, func(w io.Writer) { printInstalled(w, result) }); err != nil {
				return err
			}
			return failed
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&request.ClusterID, "cluster-id", "", "name that this cluster gives itself; fixed by the first install")
	flags.StringSliceVar(&request.PodCIDRs, "pod-cidr", nil, "pod CIDR, if it cannot be detected (repeatable)")
	flags.StringToStringVar(&request.GatewaySelector, "gateway-selector", nil, "label `KEY=VALUE` of the nodes that become gateways (default: one node is picked)")
	flags.Lookup("gateway-selector").DefValue = "" // else the usage ends with [] as well
	flags.StringVar(&request.Exposure, "exposure", "", "how peers reach the gateways: HostPort, at their nodes' own addresses; Static, at --endpoint; None, not at all: they dial out (default HostPort)")
	flags.StringSliceVar(&request.Endpoints, "endpoint", nil, "address or host name that peers dial, without port; makes the exposure Static (repeatable)")
	flags.StringVar(&request.Image, "image", "", "container image (default the chart's)")
	flags.StringArrayVarP(&request.ValuesFiles, "values", "f", nil, "file with chart values (repeatable)")
	flags.StringArrayVar(&request.Set, "set", nil, "chart value KEY=VALUE (repeatable)")
	flags.DurationVar(&limit, "wait", 3*time.Minute, "how long to wait for readiness; 0 does not wait")
	flags.BoolVar(&enableDNS, "dns", false, "have CoreDNS forward clusterset.local to weft-dns, as weftctl dns enable does")
	flags.BoolVar(&dryRun, "dry-run", false, "print the manifests for a new cluster and apply nothing")
	return cmd
}

// installDNS has the cluster's DNS forward to weft-dns, right after an install; it
// waits for answers where the install waits for readiness.
func (e *environment) installDNS(ctx context.Context, c *kube.Cluster, limit time.Duration) (dns.Standing, error) {
	var options dns.Options
	if limit > 0 {
		options.Wait = dnsWait
	}
	ask, err := dns.ThroughAPI(c.Config)
	if err == nil {
		_, err = dns.Enable(ctx, c, ask, options, e.progress)
	}
	if err != nil {
		err = fmt.Errorf("everything is installed, but pods do not find services of other clusters by name yet: %w; `weftctl dns enable` tries again", err)
	}
	return dns.Look(ctx, c), err
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
	fmt.Fprintf(w, "  DNS       %s\n", r.DNS)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "Note: %s.\n", note)
	}
}
