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
		Long: `Removes all that Weft made in this cluster: its peerings and connections, the services imported from others, the block in
CoreDNS's configuration, what is on the nodes, and Weft's programs, objects and CRDs, this cluster's identity included. What
stays are your ServiceExports with their CRD, and what peers have of this cluster, until they run ` + "`weftctl unpeer`" + `.

If CoreDNS's ConfigMap is not in kube-system, run ` + "`weftctl dns disable --configmap NAMESPACE/NAME`" + ` as well.
It is bounded in time, and can be repeated: if a program does not answer it stops and says which, and --force goes on
without that and lists what was left.`,
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
		fmt.Fprintf(w, "Connections between other clusters that could not be withdrawn: %s; their direct links stay until both ends unpeer this cluster.\n", strings.Join(left.Connections, ", "))
	}
	if len(left.Peers) > 0 {
		fmt.Fprintf(w, "Peers that could not be told: %s; they see this cluster as not reached until they run `weftctl unpeer`.\n", strings.Join(left.Peers, ", "))
	}
	if len(left.Nodes) > 0 {
		fmt.Fprintf(w, "Nodes that are not cleaned, since their agents gave no answer: %s; a reboot removes what is in the kernel, `weft-agent cleanup` on the node the rest.\n", strings.Join(left.Nodes, ", "))
	}
	if len(left.Folders) > 0 {
		fmt.Fprintf(w, "Folders that may be left on nodes: %s.\n", strings.Join(left.Folders, ", "))
	}
	if left.DNS != "" {
		fmt.Fprintf(w, "The cluster's DNS may still forward to weft-dns: %s.\n", left.DNS)
	}
	if len(left.CRDs) > 0 {
		fmt.Fprintf(w, "Your objects stay, and their CRD %s with them; without Weft nothing acts on them.\n", strings.Join(left.CRDs, ", "))
	}
	fmt.Fprintln(w, "This cluster's identity is gone with it: each former peer has to run `weftctl unpeer NAME`, with its name for this cluster, before it peers with it again.")
}
