package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/tools/traffic/barewireguard"
	"github.com/weft-fabric/weft/tools/traffic/control"
)

const maxConfigBytes = 64 << 10

func serveCommand() *cobra.Command {
	var address string
	var port uint16
	var attached bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run every server and the control API until a signal",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ip, err := netip.ParseAddr(address)
			if err != nil {
				return fmt.Errorf("read --address: %w", err)
			}
			server, err := control.Listen(control.Options{Address: ip, BasePort: port})
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if attached {
				var cancel context.CancelFunc
				ctx, cancel = untilInputEnds(ctx, os.Stdin)
				defer cancel()
				if err := printReady(); err != nil {
					return err
				}
			}
			return server.Serve(ctx)
		},
	}
	cmd.Flags().StringVar(&address, "address", "0.0.0.0", "address to listen on")
	cmd.Flags().Uint16Var(&port, "base-port", control.DefaultBasePort, "first port: echo, then bulk, stream and control")
	cmd.Flags().BoolVar(&attached, "attached", false, "say when it is ready, and end when standard input does")
	return cmd
}

// bareWireGuardCommand runs apart from the servers, as WireGuard does from the
// programs that use it.
func bareWireGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "bare-wireguard",
		Short: "Run a WireGuard device; configuration on standard input, whose end stops it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			input := bufio.NewReader(os.Stdin)
			var config barewireguard.Config
			line, err := input.ReadBytes('\n')
			if err != nil || len(line) > maxConfigBytes || json.Unmarshal(line, &config) != nil {
				return fmt.Errorf("read the configuration: expected one line of JSON")
			}
			ctx, cancel := untilInputEnds(cmd.Context(), input)
			defer cancel()
			closeDevice, err := barewireguard.Start(config)
			if err != nil {
				return err
			}
			defer closeDevice()
			if err := printReady(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		},
	}
}

// untilInputEnds returns a context that ends with input: a program that is
// driven by another one cannot outlive it.
func untilInputEnds(ctx context.Context, input io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return ctx, cancel
}

func printReady() error { return printJSON(map[string]bool{"ready": true}) }

func callCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "call ADDRESS:PORT PATH",
		Short: "Post standard input to the control API of a server and print its answer",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := io.ReadAll(io.LimitReader(os.Stdin, maxConfigBytes))
			if err != nil {
				return fmt.Errorf("read the request: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			answer, err := control.Call(ctx, args[0], args[1], body)
			if err != nil {
				return err
			}
			_, err = os.Stdout.Write(answer)
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "time for the whole call")
	return cmd
}
