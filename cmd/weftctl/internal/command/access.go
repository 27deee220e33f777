package command

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/access"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

func newAccess(env *environment) *cobra.Command {
	var accept bool
	var flags grantFlags
	cmd := &cobra.Command{
		Use:   "access [NAME]",
		Short: "Say what the other clusters may do here, change it, or accept one that is introduced",
		Long: `Shows for each ForeignCluster, or for NAME alone, who made it, whether it waits for approval, and what it may do here:
open flows to pods, be told of which exported services and have which of its own imported, exchange traffic with which others
through this cluster, serve as a hub, introduce clusters, and what those may do.

Flags that grant something change what NAME is granted here, and leave the rest. With --accept this cluster agrees to the
introduction of NAME and peers with it directly.`,
		Example: `  weftctl access
  weftctl access milan -o json
  weftctl access milan --use-as-hub --introductions Ask
  weftctl access milan --transit none
  weftctl access milan --export-services shop,search --import-services None
  weftctl access rome --accept`,
		Args: arguments(cobra.MaximumNArgs(1), "at most one name of a ForeignCluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			grants, err := flags.read(cmd)
			if err != nil {
				return err
			}
			switch {
			case name == "" && (accept || grants.Any()):
				return usageError{errors.New("of which cluster? Give a name that `weftctl access` shows")}
			case accept && grants.Any():
				return usageError{errors.New("--accept goes without other grants: an introduced cluster may do what --introduced grants to its introducer")}
			}
			c, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			return env.runAccess(cmd.Context(), c, name, accept, grants)
		},
	}
	flags.add(cmd, "")
	// What is left out stays as it is: the defaults are those of a new peer.
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage, _, _ = strings.Cut(f.Usage, " (default ") })
	cmd.Flags().BoolVar(&accept, "accept", false, "accept the introduction of the cluster")
	return cmd
}

func (e *environment) runAccess(ctx context.Context, c client.Client, name string, accept bool, grants peering.Grants) error {
	if accept {
		accepted, err := access.Accept(ctx, c, name)
		if err != nil {
			return err
		}
		return e.print(accepted, accepted.Text)
	}
	if grants.Any() {
		if err := peering.Change(ctx, c, name, grants); err != nil {
			return err
		}
	}
	listing, err := access.Collect(ctx, c, name)
	if err != nil {
		return err
	}
	return e.print(listing, listing.Text)
}
