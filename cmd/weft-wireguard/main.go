// Command weft-wireguard encrypts for nodes whose kernel has no WireGuard. It
// runs apart from the agent, so that the agent's restarts and upgrades do not
// touch the tunnels, and it is idle where the kernel has WireGuard.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/weft-fabric/weft/dataplane/lane/userspace"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "weft-wireguard:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	flags := flag.NewFlagSet("weft-wireguard", flag.ExitOnError)
	runDir := flags.String("run-dir", "/run/weft", "folder with the agent's requests for lanes")
	memoryMiB := flags.Int64("memory-limit", 256, "soft limit of the heap in MiB (GOMEMLIMIT overrides it)")
	var level slog.Level
	flags.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	// Packet buffers are 64 KiB each and come from pools that only the garbage
	// collector shrinks.
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(*memoryMiB << 20)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return userspace.Run(ctx, userspace.Options{RunDir: *runDir, Log: log})
}
