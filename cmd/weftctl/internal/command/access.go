package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/access"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

func newAccess(env *environment) *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "access [NAME]",
		Short: "Say what the other clusters may do here, or accept one that is introduced",
		Long: `Shows for each ForeignCluster, or for NAME alone, who made it, whether it waits for approval, and what it may do here:
open flows to pods, exchange traffic with which others through this cluster, serve as a hub, introduce clusters, and what
those may do.

With --accept it agrees to the introduction of NAME, so that this cluster peers with it directly.`,
		Example: `  weftctl access
  weftctl access milan -o json
  weftctl access milan --accept`,
		Args: arguments(cobra.MaximumNArgs(1), "at most one name of a ForeignCluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if accept && name == "" {
				return usageError{errors.New("--accept which cluster? Give the name of one that `weftctl access` shows as waiting")}
			}
			c, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			if accept {
				accepted, err := access.Accept(cmd.Context(), c, name)
				if err != nil {
					return err
				}
				return env.print(accepted, accepted.Text)
			}
			listing, err := access.Collect(cmd.Context(), c, name)
			if err != nil {
				return err
			}
			return env.print(listing, listing.Text)
		},
	}
	cmd.Flags().BoolVar(&accept, "accept", false, "accept the introduction of the cluster")
	return cmd
}
