package main

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

// largeDatagrams are more than any MTU on the way, so they are fragmented; the
// second is about the largest that UDP over IPv4 can carry.
var largeDatagrams = []int{8192, 60000}

// matrix tries every ordered pair of pods across the clusters, those of each
// two clusters at the same time as those of the others.
func (d *demo) matrix(ctx context.Context) error {
	var pairs [][]measure.Pair
	for _, span := range testbed.Triangle() {
		across, err := measure.Pairs(ctx, d.hosts[span.A], d.hosts[span.B])
		if err != nil {
			return err
		}
		pairs = append(pairs, across)
	}
	d.say("try %d ordered pairs over TCP, UDP and ICMP, and UDP datagrams of %v bytes", len(slices.Concat(pairs...)), largeDatagrams)
	var err error
	if d.pairs, err = measure.TryAll(ctx, pairs, largeDatagrams...); err != nil {
		return err
	}
	for _, result := range d.pairs {
		d.report.count(result)
		for _, check := range result.Checks {
			if check.Err != nil {
				d.say("%s -> %s (%s), %s of %d bytes: %v", result.From, result.To, result.Target, check.Protocol, check.Bytes, check.Err)
			}
		}
	}
	return nil
}

// transfers moves verified content each way between pods on plain nodes, the
// longest way there is.
func (d *demo) transfers(ctx context.Context) error {
	a, c := plainHost(d.hosts["a"]), plainHost(d.hosts["c"])
	for _, ends := range [][2]testbed.Host{{a, c}, {c, a}} {
		pair, err := measure.NewPair(ctx, ends[0], ends[1])
		if err != nil {
			return err
		}
		result, err := measure.Transfer(ctx, measure.Way{From: pair.From, Target: pair.Target}, d.bulkBytes)
		if err != nil {
			return fmt.Errorf("move %d bytes from %s to %s: %w", d.bulkBytes, pair.From, pair.To, err)
		}
		d.report.TransfersVerified++
		d.report.TransferBytes = result.Bytes
		d.say("%s -> %s: %d bytes in %.1f s, SHA-256 %.16s… at both ends", pair.From, pair.To, result.Bytes, result.Seconds, result.SHA256)
	}
	return nil
}

// latency compares the round trip between pods on the gateways of a and c with
// bare WireGuard between the same nodes, and measures the one between a and b
// through c meanwhile.
func (d *demo) latency(ctx context.Context) error {
	bare, fabric, err := d.bareAndFabric(ctx)
	if err != nil {
		return err
	}
	defer bare.Close()
	d.report.Pings = d.pings
	d.say("measure round trips, median of %d", d.pings)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		d.report.HubRTT, err = d.roundTrip(ctx, "a", "b")
		return err
	})
	group.Go(func() error {
		over, err := measure.RTT(ctx, fabric, d.pings)
		if err != nil {
			return err
		}
		without, err := measure.RTT(ctx, bare.Way(), d.pings)
		d.report.RTT, d.report.BareRTT = over.MedianMicroseconds/1000, without.MedianMicroseconds/1000
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	d.say("a-c: fabric %.3f ms, bare WireGuard %.3f ms; a-b through c: %.3f ms", d.report.RTT, d.report.BareRTT, d.report.HubRTT)
	return nil
}

// throughput compares TCP between a and c over a link without emulated limits.
func (d *demo) throughput(ctx context.Context) error {
	d.say("measure throughput a-c over a link without emulation, %d alternating runs of %s", d.runs, d.runDuration)
	if err := d.lab.Link(ctx, "a", "c", 0); err != nil {
		return err
	}
	bare, fabric, err := d.bareAndFabric(ctx)
	if err != nil {
		return err
	}
	defer bare.Close()
	rates, err := measure.Alternate(ctx, fabric, bare.Way(), d.runs, d.runDuration, d.say)
	if err != nil {
		return err
	}
	d.report.Runs = d.runs
	d.report.Throughput, d.report.BareThroughput = measure.Median(rates.Fabric), measure.Median(rates.Bare)
	if d.report.BareThroughput > 0 {
		d.report.Ratio = d.report.Throughput / d.report.BareThroughput
	}
	return d.lab.Link(ctx, "a", "c", testbed.Triangle()[0].RTT)
}

// bareAndFabric sets bare WireGuard up between the gateway nodes, and returns
// the way between the pods on them, both checked once.
func (d *demo) bareAndFabric(ctx context.Context) (*measure.Bare, measure.Way, error) {
	a, c := d.hosts["a"][0], d.hosts["c"][0]
	pair, err := measure.NewPair(ctx, a, c)
	if err != nil {
		return nil, measure.Way{}, err
	}
	mtu, err := testbed.LaneMTU(ctx, a)
	if err != nil {
		return nil, measure.Way{}, err
	}
	d.report.MTU = mtu
	bare, err := measure.StartBare(ctx, a, c, mtu)
	if err != nil {
		return nil, measure.Way{}, err
	}
	fabric := measure.Way{From: a, Target: pair.Target}
	// The first packets open WireGuard's session; they are not measured.
	for _, way := range []measure.Way{fabric, bare.Way()} {
		if err := measure.Warm(ctx, way); err != nil {
			bare.Close()
			return nil, measure.Way{}, err
		}
	}
	return bare, fabric, nil
}

func plainHost(hosts []testbed.Host) testbed.Host {
	for _, h := range hosts {
		if !h.Gateway {
			return h
		}
	}
	return testbed.Host{}
}
