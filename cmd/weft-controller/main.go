// Command weft-controller is the control plane of one cluster: see package
// controlplane.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weft-controller:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var options controlplane.Options
	var level string
	cmd := &cobra.Command{
		Use:           "weft-controller",
		Short:         "Control plane of the Weft fabric in one cluster",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var verbosity slog.Level
			if err := verbosity.UnmarshalText([]byte(level)); err != nil {
				return fmt.Errorf("read --log-level: %q is none of debug, info, warn, error", level)
			}
			options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: verbosity}))
			return controlplane.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; empty: the pod's service account")
	flags.StringVar(&options.Namespace, "namespace", v1alpha1.SystemNamespace, "namespace of Weft's Secrets and of the leader's Lease")
	flags.StringVar(&options.ChannelBind, "channel-bind", ":9443", "address that takes peer channels, which the agents of gateways splice to it")
	flags.StringVar(&options.PodName, "pod-name", os.Getenv("POD_NAME"), "name that holds the leader's Lease (default: $POD_NAME)")
	flags.StringVar(&options.PodIP, "pod-ip", os.Getenv("POD_IP"), "address under which agents reach this process (default: $POD_IP)")
	flags.StringVar(&options.MetricsBind, "metrics-bind", ":8080", "address that serves /metrics; 0 serves none")
	flags.StringVar(&options.HealthBind, "health-bind", ":8081", "address that serves /healthz and /readyz; 0 serves none")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}
