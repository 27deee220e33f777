// Command traffic is the server and the client of every kind of traffic that
// demos and end-to-end tests send. It is static and needs no shell, so it runs
// as a pod's only program as well as on a node. Results are JSON on standard
// output; every command is bounded in time.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/tools/traffic/control"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := &cobra.Command{
		Use:           "traffic",
		Short:         "Send, receive and verify test traffic",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serveCommand(), clientCommand(), pingCommand(), lookupCommand(), callCommand(), bareWireGuardCommand())
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		_ = printJSON(control.Failure{Error: err.Error()})
		os.Exit(1)
	}
}

func printJSON(v any) error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}
