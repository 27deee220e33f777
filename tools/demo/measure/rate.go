package measure

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/bulk"
	"github.com/weft-fabric/weft/tools/traffic/control"
	"github.com/weft-fabric/weft/tools/traffic/ping"
)

// Way is a direction between two hosts: from From to a server at Target.
type Way struct {
	From   testbed.Host
	Target netip.Addr
}

// Transfer moves verified content.
func Transfer(ctx context.Context, way Way, size int64) (bulk.Result, error) {
	return testbed.Call[bulk.Result](ctx, way.From, control.PathBulk, bulk.Request{
		Target: testbed.Port(way.Target, control.BulkOffset), Direction: bulk.Upload, Bytes: size, Verify: true,
		Seed: uint64(size), TimeoutMilliseconds: 180_000,
	})
}

// RTT pings count times and returns the run, of which no ping may be lost.
func RTT(ctx context.Context, way Way, count int) (ping.Result, error) {
	result, err := testbed.Call[ping.Result](ctx, way.From, control.PathPing, ping.Request{
		Target: way.Target, Count: count, IntervalMilliseconds: 5,
	})
	if err == nil && result.Received != result.Sent {
		err = fmt.Errorf("ping %s from %s: %d of %d answered", way.Target, way.From, result.Received, result.Sent)
	}
	return result, err
}

// Throughputs are megabits (10^6) per second of alternating runs.
type Throughputs struct {
	Fabric, Bare []float64
}

// Alternate measures TCP throughput over the fabric and over bare WireGuard in
// turn, so that whatever else the machine does hits both alike.
func Alternate(ctx context.Context, fabric, bare Way, runs int, each time.Duration, progress func(string, ...any)) (Throughputs, error) {
	var out Throughputs
	for run := range runs {
		f, err := throughput(ctx, fabric, each)
		if err != nil {
			return out, fmt.Errorf("measure the fabric's throughput: %w", err)
		}
		b, err := throughput(ctx, bare, each)
		if err != nil {
			return out, fmt.Errorf("measure bare WireGuard's throughput: %w", err)
		}
		out.Fabric, out.Bare = append(out.Fabric, f), append(out.Bare, b)
		progress("run %d of %d: fabric %.0f Mbit/s, bare WireGuard %.0f Mbit/s", run+1, runs, f, b)
	}
	return out, nil
}

func throughput(ctx context.Context, way Way, duration time.Duration) (float64, error) {
	result, err := testbed.Call[bulk.Result](ctx, way.From, control.PathBulk, bulk.Request{
		Target: testbed.Port(way.Target, control.BulkOffset), Direction: bulk.Upload, Bytes: 16 << 30,
		DurationMilliseconds: int(duration.Milliseconds()), TimeoutMilliseconds: int(duration.Milliseconds()) + 60_000,
	})
	return result.MegabitsPerSecond, err
}

// Median of values; 0 of none.
func Median[T cmp.Ordered](values []T) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Warm pings until one is answered, within 15 s.
func Warm(ctx context.Context, way Way) error {
	result, err := testbed.Call[ping.Result](ctx, way.From, control.PathPing, ping.Request{
		Target: way.Target, Count: 15, TimeoutMilliseconds: 1000,
	})
	if err == nil && result.Received == 0 {
		err = fmt.Errorf("no answer within 15 s")
	}
	if err != nil {
		return fmt.Errorf("reach %s from %s: %w", way.Target, way.From, err)
	}
	return nil
}
