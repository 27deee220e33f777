package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

type options struct {
	rtt         time.Duration
	nodes       int
	pings       int
	bulkBytes   int64
	runs        int
	runDuration time.Duration
	limit       time.Duration
	leastRatio  float64
}

func upCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the clusters, join them, try every pair of pods, measure; leaves them running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.limit)
			defer cancel()
			return up(ctx, o, os.Stdout)
		},
	}
	cmd.Flags().DurationVar(&o.rtt, "rtt", 20*time.Millisecond, "round-trip time between the clusters")
	cmd.Flags().IntVar(&o.nodes, "nodes", 2, "nodes a cluster")
	cmd.Flags().IntVar(&o.pings, "pings", 200, "pings per latency measurement")
	cmd.Flags().Int64Var(&o.bulkBytes, "bulk-bytes", 100_000_000, "bytes of the verified transfer each way")
	cmd.Flags().IntVar(&o.runs, "runs", 5, "alternating throughput runs")
	cmd.Flags().DurationVar(&o.runDuration, "run-duration", 4*time.Second, "time of a throughput run")
	cmd.Flags().Float64Var(&o.leastRatio, "least-ratio", 0.8, "least throughput, as a share of bare WireGuard's")
	cmd.Flags().DurationVar(&o.limit, "timeout", 45*time.Minute, "time for everything")
	return cmd
}

// demo is one run of it.
type demo struct {
	options
	lab    testbed.Lab
	a, b   *testbed.Cluster
	hosts  map[string][]testbed.Host
	out    io.Writer
	start  time.Time
	report report
	pairs  []measure.PairResult
}

func up(ctx context.Context, o options, out io.Writer) error {
	root, err := testbed.FindRoot()
	if err != nil {
		return err
	}
	d := &demo{options: o, out: out, start: time.Now(), hosts: map[string][]testbed.Host{}}
	d.lab = testbed.Lab{Root: root, Progress: &indenter{w: out}}
	if err := d.lab.Check(); err != nil {
		return err
	}
	d.report.Time = d.start.UTC()
	for _, step := range []func(context.Context) error{d.clusters, d.install, d.peer, d.pods, d.matrix, d.transfers, d.latency, d.throughput} {
		if err := step(ctx); err != nil {
			return errors.Join(err, d.evidence(err))
		}
	}
	d.report.Seconds = time.Since(d.start).Seconds()
	if err := d.report.write(d.lab.Out("demo.json")); err != nil {
		return err
	}
	d.table()
	return d.verdict()
}

// evidence keeps the logs of a failed run; ctx may be over by now.
func (d *demo) evidence(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	folder := d.lab.Out("demo-logs")
	fmt.Fprintf(d.out, "failed: %v\nlogs of the components go to %s; the clusters keep running (`make demo-down` removes them)\n", cause, folder)
	return testbed.CollectLogs(ctx, folder, d.a, d.b)
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "[%5.0f s] %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) clusters(ctx context.Context) (err error) {
	d.say("start two clusters of %d nodes with the same pod and service CIDRs, %s round trip apart", d.nodes, d.rtt)
	if err := d.lab.Up(ctx, testbed.LabOptions{Clusters: 2, Nodes: d.nodes}); err != nil {
		return err
	}
	if err := d.lab.Link(ctx, "a", "b", d.rtt); err != nil {
		return err
	}
	if d.a, err = d.lab.Open(ctx, "a"); err != nil {
		return err
	}
	if d.b, err = d.lab.Open(ctx, "b"); err != nil {
		return err
	}
	d.say("load the images")
	return d.lab.LoadImages(ctx)
}

func (d *demo) install(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range []*testbed.Cluster{d.a, d.b} {
		d.say("weftctl install --cluster-id %s", c.Name)
		group.Go(func() error { return c.Install(ctx, 5*time.Minute) })
	}
	return group.Wait()
}

func (d *demo) peer(ctx context.Context) error {
	d.say("weftctl peer")
	start := time.Now()
	if err := testbed.Peer(ctx, d.a, d.b); err != nil {
		return err
	}
	d.report.PeerSeconds = time.Since(start).Seconds()
	return nil
}

func (d *demo) pods(ctx context.Context) error {
	for _, c := range []*testbed.Cluster{d.a, d.b} {
		gateways, plain, err := c.Nodes(ctx)
		if err != nil {
			return err
		}
		if len(gateways) == 0 || len(plain) == 0 {
			return fmt.Errorf("choose nodes in cluster %s: %d gateways and %d plain nodes, need one of each; see `weftctl status`", c.Name, len(gateways), len(plain))
		}
		d.say("start pods in cluster %s on %v (gateway) and %v", c.Name, gateways, plain)
		if d.hosts[c.Name], err = c.StartPods(ctx, gateways, plain, 2*time.Minute); err != nil {
			return err
		}
	}
	return nil
}
