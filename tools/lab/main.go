// Command lab runs real Kubernetes clusters on one machine: nodes are network,
// mount, PID and cgroup namespaces, and everything between them is emulated.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/tools/lab/cluster"
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
	err := root.ExecuteContext(ctx)
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		os.Exit(cluster.ExitCode(exit)) // of lab exec's command, which has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
