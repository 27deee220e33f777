// Command demo shows the fabric at work: it starts three clusters with the same
// addresses, installs and peers Weft as a user would, sends every kind of
// traffic between real pods, and measures it against bare WireGuard. Then it
// joins two clusters directly that reached each other through the third, while
// connections between their pods go on. Last, one cluster exports a service that
// the others use by its name.
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
	root := &cobra.Command{
		Use:           "demo",
		Short:         "Three clusters with the same addresses, joined and measured",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), downCommand(), snapshotCommand())
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
