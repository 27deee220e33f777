package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

type options struct {
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
		Short: "Start the clusters, join them, try every pair of pods, measure, join two of them directly, share a service; leaves them running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			release, err := testbed.Claim()
			if err != nil {
				return err
			}
			defer release()
			ctx, cancel := context.WithTimeout(cmd.Context(), o.limit)
			defer cancel()
			return up(ctx, o, os.Stdout)
		},
	}
	cmd.Flags().IntVar(&o.nodes, "nodes", 2, "nodes a cluster")
	cmd.Flags().IntVar(&o.pings, "pings", 200, "pings per latency measurement")
	cmd.Flags().Int64Var(&o.bulkBytes, "bulk-bytes", 100_000_000, "bytes of the verified transfer each way")
	cmd.Flags().IntVar(&o.runs, "runs", 5, "alternating throughput runs")
	cmd.Flags().DurationVar(&o.runDuration, "run-duration", 3*time.Second, "time of a throughput run")
	cmd.Flags().Float64Var(&o.leastRatio, "least-ratio", 0.8, "least throughput, as a share of bare WireGuard's")
	cmd.Flags().DurationVar(&o.limit, "timeout", 45*time.Minute, "time for everything")
	return cmd
}

// demo is one run of it: a consumer c between two providers, a and b.
type demo struct {
	options
	lab     testbed.Lab
	a, b, c *testbed.Cluster
	hosts   map[string][]testbed.Host
	out     io.Writer
	start   time.Time
	report  report
	pairs   []measure.PairResult
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
	for _, step := range []func(context.Context) error{
		d.startClusters, d.install, d.peer, d.pods, d.matrix, d.transfers, d.latency, d.throughput, d.directLink, d.services,
	} {
		if err := step(ctx); err != nil {
			return errors.Join(err, d.evidence(err))
		}
	}
	d.report.Seconds = time.Since(d.start).Seconds()
	if err := d.report.write(d.lab.Out("demo.json")); err != nil {
		return err
	}
	d.table()
	if err := d.verdict(); err != nil {
		return errors.Join(err, d.evidence(err))
	}
	return nil
}

// evidence keeps the logs of a failed run; ctx may be over by now.
func (d *demo) evidence(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	folder := d.lab.Out("demo-logs")
	fmt.Fprintf(d.out, "failed: %v\nlogs of the components go to %s; the clusters keep running (`make demo-down` removes them)\n", cause, folder)
	return testbed.CollectLogs(ctx, folder, d.clusters()...)
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "[%5.0f s] %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) clusters() []*testbed.Cluster { return []*testbed.Cluster{d.a, d.b, d.c} }

func (d *demo) startClusters(ctx context.Context) error {
	d.say("start three clusters of %d nodes with the same pod and service CIDRs", d.nodes)
	if err := d.lab.Up(ctx, testbed.LabOptions{Clusters: 3, Nodes: d.nodes}); err != nil {
		return err
	}
	for _, link := range testbed.Triangle() {
		d.say("round trip %s-%s: %s", link.A, link.B, link.RTT)
		if err := d.lab.Link(ctx, link.A, link.B, link.RTT); err != nil {
			return err
		}
	}
	clusters, err := d.lab.OpenAll(ctx, "a", "b", "c")
	if err != nil {
		return err
	}
	d.a, d.b, d.c = clusters[0], clusters[1], clusters[2]
	d.say("load the images")
	return d.lab.LoadImages(ctx)
}

func (d *demo) install(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range d.clusters() {
		d.say("weftctl install --cluster-id %s", c.Name)
		group.Go(func() error { return c.Install(ctx, 5*time.Minute) })
	}
	return group.Wait()
}

// peer peers the consumer with both providers, which then reach each other
// through it.
func (d *demo) peer(ctx context.Context) error {
	start := time.Now()
	group, limited := errgroup.WithContext(ctx)
	for _, provider := range []*testbed.Cluster{d.a, d.b} {
		d.say("weftctl peer, c with %s: %s", provider.Name, strings.Join(testbed.HubGrants(), " "))
		group.Go(func() error { return testbed.Peer(limited, d.c, provider, testbed.HubGrants()...) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	d.report.PeerSeconds = time.Since(start).Seconds()
	if err := d.both(ctx, "c", time.Minute); err != nil {
		return err
	}
	d.report.HubSeconds = time.Since(start).Seconds()
	d.say("a and b, which are not peered, reach each other through c")
	return nil
}

// both waits until a reaches b, and b reaches a, through a hub, or directly if
// hub is empty.
func (d *demo) both(ctx context.Context, hub string, limit time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, ends := range [][2]*testbed.Cluster{{d.a, d.b}, {d.b, d.a}} {
		via := hub
		if hub == "" {
			via = ends[1].Name
		}
		group.Go(func() error { return ends[0].WaitVia(ctx, ends[1].Name, via, limit) })
	}
	return group.Wait()
}

func (d *demo) pods(ctx context.Context) error {
	for _, c := range d.clusters() {
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
