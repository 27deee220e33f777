// Command lab runs real Kubernetes clusters on one machine: nodes are network,
// mount, PID and cgroup namespaces, and everything between them is emulated.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "lab", Short: "Real Kubernetes clusters on one machine",
		Long:         "Real Kubernetes clusters on one machine.\n\nState is kept in $WEFT_LAB_DIR (default /var/tmp/weft-lab).",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(
		upCommand(), downCommand(), statusCommand(), kubectlCommand(), kubeconfigCommand(),
		loadImageCommand(), execCommand(), linkCommand(), apiServerCommand(),
		superviseCommand(), nodeLaunchCommand(), nodeInitCommand(), forwardCommand(), wanCommand(),
	)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
