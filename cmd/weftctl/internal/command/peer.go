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
	if peer.Kubeconfig == "" {
		peer.Kubeconfig = e.access.Kubeconfig
	}
	return peer
}

func newPeer(env *environment) *cobra.Command {
	var other kube.Access
	var name, peerName, pods, peerPods string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "peer --peer-kubeconfig FILE",
		Short: "Join two clusters whose kubeconfigs you have",
		Long: `Writes a ForeignCluster into each of the two clusters and waits until each sees the other over the data path.
Peering again is safe; it keeps the access that was granted unless a flag names another.`,
		Example: `  weftctl peer --kubeconfig berlin.kubeconfig --peer-kubeconfig milan.kubeconfig
  weftctl peer --context berlin --peer-context milan --pods None`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if other == (kube.Access{}) {
				return usageError{fmt.Errorf("which cluster shall be the peer? Give --peer-kubeconfig FILE or --peer-context NAME; without access to it, exchange `weftctl record`")}
			}
			grant, err := podAccess("--pods", pods)
			if err != nil {
				return err
			}
			peerGrant, err := podAccess("--peer-pods", peerPods)
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
				peering.Side{Client: here, LocalName: name, Grant: grant},
				peering.Side{Client: there, LocalName: peerName, Grant: peerGrant}, limit, env.progress)
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
	flags.StringVar(&pods, "pods", "", "pods here that the other may open flows to: All or None (default All, or what is granted already)")
	flags.StringVar(&peerPods, "peer-pods", "", "the same there")
	flags.DurationVar(&limit, "wait", 2*time.Minute, "how long to wait for the connection; 0 does not wait")
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
		fmt.Fprintf(w, "  %s (change it: kubectl edit foreigncluster %s)\n", peering.Granted(o), o.Peer)
	}
}
