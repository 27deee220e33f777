// Package measure sends traffic between pods of two clusters and judges what
// comes of it. Every result is plain data; nothing here waits without a bound.
package measure

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/control"
	"github.com/weft-fabric/weft/tools/traffic/echo"
	"github.com/weft-fabric/weft/tools/traffic/ping"
)

// Protocols that every pair is tried with.
const (
	TCP  = "TCP"
	UDP  = "UDP"
	ICMP = "ICMP"
)

// Pair is one ordered pair of hosts in two clusters.
type Pair struct {
	From, To testbed.Host
	// Target is To's address as From's cluster sees it.
	Target netip.Addr
	// Source is From's address as To's cluster should see it.
	Source netip.Addr
}

// Check is one protocol tried on a pair.
type Check struct {
	Protocol string
	Bytes    int
	// OK: the content came back unchanged.
	OK bool
	// Source that the far end saw, and whether it is the pair's.
	Source   netip.Addr
	SourceOK bool
	Err      error
}

// PairResult is a pair with all its checks.
type PairResult struct {
	Pair
	Checks []Check
}

// OK says whether every protocol worked.
func (r PairResult) OK() bool {
	for _, c := range r.Checks {
		if !c.OK {
			return false
		}
	}
	return len(r.Checks) > 0
}

// SourcesOK says whether every far end saw the right source.
func (r PairResult) SourcesOK() bool {
	for _, c := range r.Checks {
		if !c.SourceOK {
			return false
		}
	}
	return len(r.Checks) > 0
}

// Pairs makes every ordered pair across two sets of hosts. The clusters know
// each other by their lab names.
func Pairs(ctx context.Context, a, b []testbed.Host) ([]Pair, error) {
	var pairs []Pair
	for _, order := range [][2][]testbed.Host{{a, b}, {b, a}} {
		for _, from := range order[0] {
			for _, to := range order[1] {
				pair, err := NewPair(ctx, from, to)
				if err != nil {
					return nil, err
				}
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs, nil
}

// NewPair looks up how the two clusters see each other's host.
func NewPair(ctx context.Context, from, to testbed.Host) (Pair, error) {
	target, err := from.Cluster.Remap(ctx, to.Cluster.Name, to.Address)
	if err != nil {
		return Pair{}, err
	}
	source, err := to.Cluster.Remap(ctx, from.Cluster.Name, from.Address)
	if err != nil {
		return Pair{}, err
	}
	return Pair{From: from, To: to, Target: target, Source: source}, nil
}

// Try runs every protocol, and UDP datagrams of largeBytes, on a pair.
func Try(ctx context.Context, pair Pair, largeBytes ...int) PairResult {
	result := PairResult{Pair: pair}
	result.Checks = append(result.Checks,
		exchange(ctx, pair, TCP, control.PathEchoTCP, 4096),
		exchange(ctx, pair, UDP, control.PathEchoUDP, 64),
		pinged(ctx, pair))
	for _, size := range largeBytes {
		result.Checks = append(result.Checks, exchange(ctx, pair, UDP, control.PathEchoUDP, size))
	}
	return result
}

// TryAll tries groups of pairs, each group at the same time as the others. The
// results are in the order of the pairs.
func TryAll(ctx context.Context, groups [][]Pair, largeBytes ...int) ([]PairResult, error) {
	results := make([][]PairResult, len(groups))
	var running errgroup.Group
	for i, pairs := range groups {
		running.Go(func() error {
			for _, pair := range pairs {
				results[i] = append(results[i], Try(ctx, pair, largeBytes...))
			}
			return ctx.Err()
		})
	}
	err := running.Wait()
	return slices.Concat(results...), err
}

func exchange(ctx context.Context, pair Pair, protocol, path string, size int) Check {
	check := Check{Protocol: protocol, Bytes: size}
	answer, err := testbed.Call[echo.Result](ctx, pair.From, path, echo.Request{
		Target: testbed.Port(pair.Target, control.EchoOffset), Bytes: size, TimeoutMilliseconds: 5000,
	})
	if err != nil {
		check.Err = err
		return check
	}
	check.OK = true
	return check.saw(answer.ObservedSource.Addr(), pair.Source)
}

func pinged(ctx context.Context, pair Pair) Check {
	check := Check{Protocol: ICMP, Bytes: 64}
	answer, err := testbed.Call[ping.Result](ctx, pair.From, control.PathPing, ping.Request{Target: pair.Target, Count: 3})
	if err != nil {
		check.Err = err
		return check
	}
	check.OK = answer.Received == answer.Sent
	if !check.OK {
		check.Err = fmt.Errorf("%d of %d pings were answered", answer.Received, answer.Sent)
	}
	seen, err := testbed.Call[control.PingSeen](ctx, pair.To, control.PathPingSeen, control.PingSeen{Nonce: answer.Nonce})
	if err != nil {
		check.Err = err
		return check
	}
	source, _ := netip.ParseAddr(seen.Source) // stays invalid if none was seen
	return check.saw(source, pair.Source)
}

// saw judges the source that the far end saw.
func (c Check) saw(source, want netip.Addr) Check {
	c.Source, c.SourceOK = source, source == want
	if !c.SourceOK && c.Err == nil {
		c.Err = fmt.Errorf("the server saw source %s instead of %s", source, want)
	}
	return c
}
