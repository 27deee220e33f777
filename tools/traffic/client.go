package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/tools/traffic/bulk"
	"github.com/weft-fabric/weft/tools/traffic/calls"
	"github.com/weft-fabric/weft/tools/traffic/echo"
	"github.com/weft-fabric/weft/tools/traffic/lookup"
	"github.com/weft-fabric/weft/tools/traffic/ping"
	"github.com/weft-fabric/weft/tools/traffic/stream"
)

func clientCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "client", Short: "Be a client of a server"}
	cmd.AddCommand(
		echoCommand("tcp HOST:PORT", "Exchange random bytes over TCP; the host may be a name", 64, echo.TCPTo),
		echoCommand("udp ADDRESS:PORT", "Exchange a UDP datagram", 64, udp),
		echoCommand("large-udp ADDRESS:PORT", "Exchange a UDP datagram that is fragmented on the way", 60000, udp),
		bulkCommand(),
		streamCommand(),
		callsCommand(),
	)
	return cmd
}

func echoCommand(use, short string, size int, run func(context.Context, string, echo.Request) (echo.Result, error)) *cobra.Command {
	req := echo.Request{}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return report(run(cmd.Context(), args[0], req)) },
	}
	cmd.Flags().IntVar(&req.Bytes, "bytes", size, "bytes to exchange")
	cmd.Flags().IntVar(&req.Attempts, "attempts", 1, "attempts (UDP)")
	cmd.Flags().IntVar(&req.TimeoutMilliseconds, "timeout-ms", 5000, "milliseconds to wait")
	return cmd
}

func udp(ctx context.Context, address string, req echo.Request) (result echo.Result, err error) {
	if req.Target, err = target(address); err != nil {
		return result, err
	}
	return echo.UDP(ctx, req)
}

func bulkCommand() *cobra.Command {
	req := bulk.Request{}
	var direction string
	cmd := &cobra.Command{
		Use: "bulk ADDRESS:PORT", Short: "Move many bytes over one TCP connection", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Target, err = target(args[0]); err != nil {
				return err
			}
			req.Direction = bulk.Direction(direction)
			return report(bulk.Transfer(cmd.Context(), req))
		},
	}
	cmd.Flags().StringVar(&direction, "direction", string(bulk.Upload), "upload or download")
	cmd.Flags().Int64Var(&req.Bytes, "bytes", 100_000_000, "bytes to move")
	cmd.Flags().IntVar(&req.DurationMilliseconds, "duration-ms", 0, "end after so many milliseconds (0: after --bytes)")
	cmd.Flags().BoolVar(&req.Verify, "verify", false, "compare SHA-256 of both ends")
	cmd.Flags().Uint64Var(&req.Seed, "seed", 1, "seed of verified content")
	cmd.Flags().IntVar(&req.TimeoutMilliseconds, "timeout-ms", 120_000, "milliseconds for the whole transfer")
	return cmd
}

func streamCommand() *cobra.Command {
	req := stream.SendRequest{}
	cmd := &cobra.Command{
		Use: "stream ADDRESS:PORT", Short: "Send numbered UDP packets at a steady rate; the server counts them", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Target, err = target(args[0]); err != nil {
				return err
			}
			return report(stream.Send(cmd.Context(), req, func(stream.Sent) {}))
		},
	}
	cmd.Flags().Uint32Var(&req.Flow, "flow", 1, "number of the flow")
	cmd.Flags().IntVar(&req.PacketsPerSecond, "rate", 1000, "packets a second")
	cmd.Flags().IntVar(&req.Bytes, "bytes", 200, "bytes of payload")
	cmd.Flags().IntVar(&req.DurationMilliseconds, "duration-ms", 30_000, "milliseconds to send")
	return cmd
}

func callsCommand() *cobra.Command {
	req := calls.Request{}
	cmd := &cobra.Command{
		Use: "calls NAME:PORT", Short: "Open many new TCP connections to the echo servers behind a name", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Target = args[0]
			return report(calls.Run(cmd.Context(), req))
		},
	}
	cmd.Flags().IntVar(&req.Count, "count", 100, "connections to open")
	cmd.Flags().IntVar(&req.Parallel, "parallel", 20, "connections at a time")
	cmd.Flags().IntVar(&req.TimeoutMilliseconds, "timeout-ms", 10_000, "milliseconds for each, with its lookup")
	return cmd
}

func lookupCommand() *cobra.Command {
	req := lookup.Request{}
	cmd := &cobra.Command{
		Use: "lookup NAME", Short: "Resolve a name as /etc/resolv.conf says", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Name = args[0]
			return report(lookup.Run(cmd.Context(), req))
		},
	}
	cmd.Flags().StringVar(&req.Type, "type", "A", "type of the records: A or SRV")
	return cmd
}

func pingCommand() *cobra.Command {
	req := ping.Request{}
	cmd := &cobra.Command{
		Use: "ping ADDRESS", Short: "Measure round-trip times with ICMP echo", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Target, err = netip.ParseAddr(args[0]); err != nil {
				return fmt.Errorf("read the address: %w", err)
			}
			limit := time.Duration(req.Count*(req.TimeoutMilliseconds+req.IntervalMilliseconds)) * time.Millisecond
			ctx, cancel := context.WithTimeout(cmd.Context(), limit+time.Second)
			defer cancel()
			return report(ping.Run(ctx, req))
		},
	}
	cmd.Flags().IntVar(&req.Count, "count", 5, "echo requests")
	cmd.Flags().IntVar(&req.IntervalMilliseconds, "interval-ms", 10, "milliseconds between an answer and the next request")
	cmd.Flags().IntVar(&req.TimeoutMilliseconds, "timeout-ms", 1000, "milliseconds to wait for an answer")
	cmd.Flags().IntVar(&req.Bytes, "bytes", 64, "bytes of ICMP header and data")
	return cmd
}

func target(text string) (netip.AddrPort, error) {
	out, err := netip.ParseAddrPort(text)
	if err != nil {
		return out, fmt.Errorf("read the target: %w", err)
	}
	return out, nil
}

// report prints a result, or passes its error on.
func report[Result any](result Result, err error) error {
	if err != nil {
		return err
	}
	return printJSON(result)
}
