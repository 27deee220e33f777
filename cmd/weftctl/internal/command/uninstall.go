package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/install"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

func newUninstall(env *environment) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Weft from a cluster and its nodes",
		Long: `Withdraws the connections between other clusters, ends every peering, takes Weft's block out of CoreDNS's configuration, has
the agents remove what they made on their nodes, then deletes the services of other clusters and Weft's objects, CRDs and
claims. ServiceExports stay, and with them their CRD. If CoreDNS's ConfigMap is not in kube-system, run
` + "`weftctl dns disable --configmap NAMESPACE/NAME`" + ` as well.
It is bounded in time. If a program does not answer it stops and says which; --force goes on and lists what was left.`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			left, err := install.Uninstall(cmd.Context(), c, force, env.progress)
			if err != nil {
				return err
			}
			return env.print(left, func(w io.Writer) { printLeftovers(w, left) })
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "go on where weft-controller or an agent does not answer")
	return cmd
}

func printLeftovers(w io.Writer, left install.Leftovers) {
	fmt.Fprintln(w, "Weft is removed.")
	if len(left.Connections) > 0 {
		fmt.Fprintf(w, "Connections whose providers were not told: %s; their direct links end once both providers unpeer this cluster.\n", strings.Join(left.Connections, ", "))
	}
	if len(left.Peers) > 0 {
		fmt.Fprintf(w, "Not told that we left: %s; `weftctl unpeer` there tidies up.\n", strings.Join(left.Peers, ", "))
	}
	if len(left.Nodes) > 0 {
		fmt.Fprintf(w, "Not cleaned, since their agents gave no answer: %s; a reboot removes what is in the kernel, `weft-agent cleanup` on the node the rest.\n", strings.Join(left.Nodes, ", "))
	}
	if len(left.Folders) > 0 {
		fmt.Fprintf(w, "Folders that may be left on nodes: %s.\n", strings.Join(left.Folders, ", "))
	}
	if left.DNS != "" {
		fmt.Fprintf(w, "The cluster's DNS may still forward to weft-dns: %s.\n", left.DNS)
	}
	if len(left.CRDs) > 0 {
		fmt.Fprintf(w, "Kept, since there are objects of yours: CRD %s; without Weft nothing acts on them.\n", strings.Join(left.CRDs, ", "))
	}
	fmt.Fprintln(w, "Clusters that were peers must unpeer this cluster's former identity before they peer with it again: `weftctl unpeer NAME` there.")
}
