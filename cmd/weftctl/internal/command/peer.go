package command

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// peerAccess adds the flags that name the other cluster.
func peerAccess(cmd *cobra.Command, access *kube.Access) {
	cmd.Flags().StringVar(&access.Kubeconfig, "peer-kubeconfig", "", "kubeconfig file of the other cluster (default the same)")
	cmd.Flags().StringVar(&access.Context, "peer-context", "", "context of the other cluster")
}

// otherAccess completes the other cluster's access: one kubeconfig may hold both.
func (e *environment) otherAccess(peer kube.Access) kube.Access {
	peer.FlagPrefix = "peer-"
	if peer.Kubeconfig == "" {
		peer.Kubeconfig = e.access.Kubeconfig
	}
	return peer
}

func newPeer(env *environment) *cobra.Command {
	var other kube.Access
	var name, peerName string
	var own, peers grantFlags
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "peer --peer-kubeconfig FILE | --peer-context NAME",
		Short: "Join two clusters whose kubeconfigs you have",
		Long: `Writes a ForeignCluster into each of the two clusters and waits until each sees the other over the data path.

What each side grants the other can be said by flags: those without prefix are for the ForeignCluster here, those with
--peer- for the one there. A new peer may open flows to all pods, is told of all services that are exported (ServiceExport)
and has its own imported, and nothing else. Peering again is safe: flags that are given change what is granted, and the rest
stays.`,
		Example: `  weftctl peer --kubeconfig berlin.kubeconfig --peer-kubeconfig milan.kubeconfig
  weftctl peer --context berlin --peer-context milan --pods None
  # milan is told of what berlin exports in namespaces shop and search alone, and imports that
  weftctl peer --context berlin --peer-context milan --export-services shop,search
  # hub forwards between edge and its other peers, and may introduce edge to them
  weftctl peer --context hub --peer-context edge --transit all \
    --peer-use-as-hub --peer-introductions Allow --peer-introduced All`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if other == (kube.Access{}) {
				return usageError{fmt.Errorf("which cluster shall be the peer? Give --peer-kubeconfig FILE or --peer-context NAME; without access to it, exchange `weftctl record`")}
			}
			grants, err := own.read(cmd)
			if err != nil {
				return err
			}
			peerGrants, err := peers.read(cmd)
			if err != nil {
				return err
			}
			here, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			there, err := kube.Connect(cmd.Context(), env.otherAccess(other))
			if err != nil {
				return fmt.Errorf("the other cluster: %w", err)
			}
			outcomes, err := peering.Peer(cmd.Context(),
				peering.Side{Client: here, LocalName: name, Grants: grants},
				peering.Side{Client: there, LocalName: peerName, Grants: peerGrants}, limit, env.progress)
			if err != nil {
				return err
			}
			return env.print(map[string]any{"clusters": outcomes}, func(w io.Writer) { printPeered(w, outcomes) })
		},
	}
	peerAccess(cmd, &other)
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "name of the other cluster here (default its ID)")
	flags.StringVar(&peerName, "peer-name", "", "name of this cluster there (default its ID)")
	flags.DurationVar(&limit, "wait", 2*time.Minute, "how long to wait for the connection; 0 does not wait")
	own.add(cmd, "")
	peers.add(cmd, "peer-")
	return cmd
}

func printPeered(w io.Writer, outcomes []peering.Outcome) {
	for _, o := range outcomes {
		state := "is not connected yet"
		if o.Connected {
			state = "is connected"
		}
		fmt.Fprintf(w, "%s: %s %s.\n", o.ClusterID, o.Peer, state)
		for _, network := range o.Networks {
			fmt.Fprintf(w, "  %s's %s %s appear here as %s\n", o.Peer, network.Name, network.Original, network.Remapped)
		}
		for _, clause := range peering.Granted(o) {
			fmt.Fprintf(w, "  %s\n", clause)
		}
	}
	fmt.Fprintln(w, "`weftctl status` shows how peers are reached, `weftctl access` what each peer may do, and changes it by flags.")
}
