package main

import (
	"context"
	"fmt"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

// largeDatagrams are more than any MTU on the way, so they are fragmented; the
// second is about the largest that UDP over IPv4 can carry.
var largeDatagrams = []int{8192, 60000}

// matrix tries every ordered pair of pods across the clusters.
func (d *demo) matrix(ctx context.Context) error {
	pairs, err := measure.Pairs(ctx, d.hosts["a"], d.hosts["b"])
	if err != nil {
		return err
	}
	d.say("try %d ordered pairs over TCP, UDP and ICMP, and UDP datagrams of %v bytes", len(pairs), largeDatagrams)
	for _, pair := range pairs {
		result := measure.Try(ctx, pair, largeDatagrams...)
		d.pairs = append(d.pairs, result)
		d.report.count(result)
		for _, check := range result.Checks {
			if check.Err != nil {
				d.say("%s -> %s (%s), %s of %d bytes: %v", pair.From, pair.To, pair.Target, check.Protocol, check.Bytes, check.Err)
			}
		}
	}
	return nil
}

// transfers moves verified content each way between pods on plain nodes, the
// longest way there is.
func (d *demo) transfers(ctx context.Context) error {
	a, b := plainHost(d.hosts["a"]), plainHost(d.hosts["b"])
	for _, ends := range [][2]testbed.Host{{a, b}, {b, a}} {
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

// latency compares the round trip between pods on the gateways with bare
// WireGuard between the same nodes.
func (d *demo) latency(ctx context.Context) error {
	bare, fabric, err := d.bareAndFabric(ctx)
	if err != nil {
		return err
	}
	defer bare.Close()
	over, err := measure.RTT(ctx, fabric, d.pings)
	if err != nil {
		return err
	}
	without, err := measure.RTT(ctx, bare.Way(), d.pings)
	if err != nil {
		return err
	}
	d.report.Pings = d.pings
	d.report.RTT, d.report.BareRTT = over.MedianMicroseconds/1000, without.MedianMicroseconds/1000
	d.say("round trip, median of %d: fabric %.3f ms, bare WireGuard %.3f ms", d.pings, d.report.RTT, d.report.BareRTT)
	return nil
}

// throughput compares TCP over a link without emulated limits.
func (d *demo) throughput(ctx context.Context) error {
	d.say("measure throughput over a link without emulation, %d alternating runs of %s", d.runs, d.runDuration)
	if err := d.lab.Link(ctx, "a", "b", 0); err != nil {
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
	return d.lab.Link(ctx, "a", "b", d.rtt)
}

// bareAndFabric sets bare WireGuard up between the gateway nodes, and returns
// the way between the pods on them, both checked once.
func (d *demo) bareAndFabric(ctx context.Context) (*measure.Bare, measure.Way, error) {
	a, b := d.hosts["a"][0], d.hosts["b"][0]
	pair, err := measure.NewPair(ctx, a, b)
	if err != nil {
		return nil, measure.Way{}, err
	}
	mtu, err := testbed.LaneMTU(ctx, a)
	if err != nil {
		return nil, measure.Way{}, err
	}
	d.report.MTU = mtu
	bare, err := measure.StartBare(ctx, a, b, mtu)
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
