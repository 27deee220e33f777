// Command weftctl installs Weft, joins clusters and says how they are.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
