package command

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/report"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/services"
)

func newStatus(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how this cluster and its peers are, and what to do",
		Long: `Shows the nodes, the peers, the links to them as probes over the data path measure them, and what is wrong,
each with what to do about it. ` + "`weftctl status services`" + ` says it of the services that clusters share.
Exit code 0: all is well; 1: there is a problem.`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			input, err := report.Collect(cmd.Context(), c)
			if err != nil {
				return err
			}
			made := report.Make(input)
			if err := env.print(made, made.Text); err != nil {
				return err
			}
			if !made.Healthy {
				return errProblem
			}
			return nil
		},
	}
	cmd.AddCommand(newStatusServices(env))
	return cmd
}

func newStatusServices(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "services",
		Short: "Say which services the clusters share, with whose endpoints, and what to do",
		Long: `Shows each service that this cluster exports (ServiceExport) or imports (ServiceImport), from which clusters its endpoints
come, how many are ready, and whether packets reach these clusters; what each peer is told and what of its services counts
here; whether the cluster's DNS leads to weft-dns; and what is wrong, with what to do about it: exports that are wrong or
differ between clusters, clusters that are not reached, services without endpoints.
Exit code 0: all is well; 1: there is a problem.`,
		Example: `  weftctl status services
  weftctl status services -o json | jq '.services[].clusters'`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			return env.runStatusServices(cmd.Context(), c)
		},
	}
}

func (e *environment) runStatusServices(ctx context.Context, c client.Reader) error {
	input, err := services.Collect(ctx, c)
	if err != nil {
		return err
	}
	made := services.Make(input)
	if err := e.print(made, made.Text); err != nil {
		return err
	}
	if !made.Healthy {
		return errProblem
	}
	return nil
}
