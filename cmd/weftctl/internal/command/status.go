package command

import (
	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/report"
)

func newStatus(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say how this cluster and its peers are, and what to do",
		Long: `Shows the nodes, the peers, the links to them as probes over the data path measure them, and what is wrong with
what to do about it. Exit code 0: all is well; 1: there is a problem.`,
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
}
