// Command weft-dns answers for clusterset.local in one cluster: see package dns.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/dns"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weft-dns:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var options dns.Options
	var level string
	cmd := &cobra.Command{
		Use:           "weft-dns",
		Short:         "DNS of multi-cluster services (clusterset.local) in one cluster",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var verbosity slog.Level
			if err := verbosity.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("read --log-level: %q is none of debug, info, warn, error", level)
			}
			options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: verbosity}))
			return dns.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the pod's service account")
	flags.StringVar(&options.Bind, "bind", ":5353", "address that serves DNS over UDP and TCP")
	flags.StringVar(&options.MetricsBind, "metrics-bind", ":8080", "address that serves /metrics; 0 serves none")
	flags.StringVar(&options.HealthBind, "health-bind", ":8081", "address that serves /healthz, /readyz and /cluster-dns; 0 serves none")
	flags.DurationVar(&options.LameDuck, "lame-duck", 5*time.Second, "how long to go on answering, not ready, when stopped")
	flags.StringVar(&options.ResolvConf, "resolv-conf", "/etc/resolv.conf", "names the cluster's DNS, which /cluster-dns asks")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}
