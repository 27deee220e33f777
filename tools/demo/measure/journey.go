package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/control"
	"github.com/weft-fabric/weft/tools/traffic/steady"
)

// Connection is a TCP connection that stays open, its bytes checked one by one.
type Connection struct {
	pair Pair
	id   uint32
}

// StartConnection opens it and returns once bytes have come back.
func StartConnection(ctx context.Context, pair Pair) (*Connection, error) {
	c := &Connection{pair: pair, id: flowNumber(time.Now(), -1)}
	_, err := testbed.Call[steady.Report](ctx, pair.From, control.PathSteady, steady.Request{
		ID: c.id, Target: testbed.Port(pair.Target, control.EchoOffset), DurationMilliseconds: int(longest.Milliseconds()),
	})
	if err != nil {
		return nil, fmt.Errorf("open the connection %s -> %s: %w", pair.From, pair.To, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 15*time.Second, true, func(ctx context.Context) (bool, error) {
		now, err := c.Now(ctx)
		return now.Verified > 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the first byte of the connection %s -> %s: %w", pair.From, pair.To, err)
	}
	return c, nil
}

// Now reports on it while it goes on.
func (c *Connection) Now(ctx context.Context) (steady.Report, error) {
	return testbed.Call[steady.Report](ctx, c.pair.From, control.PathSteadyNow, control.Flow{Flow: c.id})
}

// Finish waits for the last byte and reports.
func (c *Connection) Finish(ctx context.Context) (steady.Report, error) {
	report, err := testbed.Call[steady.Report](ctx, c.pair.From, control.PathSteadyStop, control.Flow{Flow: c.id})
	if err != nil {
		return report, fmt.Errorf("end the connection %s -> %s: %w", c.pair.From, c.pair.To, err)
	}
	return report, nil
}

// Journey is traffic that goes on while the path under it changes: TCP
// connections from its beginning to its end, and numbered UDP packets that are
// accounted for by stage. A stage's packets begin before the last one's end, so
// that no moment goes unobserved but a rest.
type Journey struct {
	pairs       []Pair
	connections []*Connection
	flows       *Flows
}

// StartJourney starts both on every pair.
func StartJourney(ctx context.Context, pairs []Pair) (*Journey, error) {
	j := &Journey{pairs: pairs}
	for _, pair := range pairs {
		c, err := StartConnection(ctx, pair)
		if err != nil {
			return nil, err
		}
		j.connections = append(j.connections, c)
	}
	var err error
	j.flows, err = StartFlows(ctx, pairs)
	return j, err
}

// Stage ends one stage and begins the next.
func (j *Journey) Stage(ctx context.Context) (Stage, error) {
	next, err := StartFlows(ctx, j.pairs)
	if err != nil {
		return nil, err
	}
	reports, err := j.flows.Finish(ctx)
	j.flows = next
	return reports, err
}

// Rest ends a stage and lets only the TCP connections go on, until Resume: what
// is measured meanwhile does not wait for the packets.
func (j *Journey) Rest(ctx context.Context) (Stage, error) { return j.flows.Finish(ctx) }

// Resume begins the stage after a rest.
func (j *Journey) Resume(ctx context.Context) (err error) {
	j.flows, err = StartFlows(ctx, j.pairs)
	return err
}

// End ends the last stage and the connections.
func (j *Journey) End(ctx context.Context) (Stage, Connections, error) {
	reports, err := j.flows.Finish(ctx)
	errs := []error{err}
	var connections Connections
	for _, c := range j.connections {
		report, err := c.Finish(ctx)
		errs = append(errs, err)
		connections = append(connections, report)
	}
	return reports, connections, errors.Join(errs...)
}

// Stage is what became of the packets of one stage, a report a flow.
type Stage []FlowReport

// Lost packets of all flows.
func (s Stage) Lost() uint64 {
	var lost uint64
	for _, r := range s {
		lost += r.Lost
	}
	return lost
}

// Sent packets of all flows.
func (s Stage) Sent() uint64 {
	var sent uint64
	for _, r := range s {
		sent += r.Sent.Sent
	}
	return sent
}

// Silence is the longest that any of the flows had.
func (s Stage) Silence() time.Duration {
	var longest int64
	for _, r := range s {
		longest = max(longest, r.Received.LongestSilenceMicroseconds)
	}
	return time.Duration(longest) * time.Microsecond
}

// LeastRate of the flows, in packets a second.
func (s Stage) LeastRate() float64 {
	least := math.Inf(1)
	for _, r := range s {
		least = min(least, float64(r.Sent.Sent)/r.Sent.End.Sub(r.Sent.Start).Seconds())
	}
	return least
}

// Check says which sender did not keep its rate, or whose receiver lost packets
// itself: then the stage says nothing about the network.
func (s Stage) Check() error {
	var errs []error
	for _, r := range s {
		if want := uint64(r.Sent.End.Sub(r.Sent.Start).Seconds() * Rate * 0.99); r.Sent.Sent < want {
			errs = append(errs, fmt.Errorf("%s -> %s: sent %d packets instead of %d; the machine is too busy", r.Pair.From, r.Pair.To, r.Sent.Sent, want))
		}
		if r.Received.SocketDropped > 0 {
			errs = append(errs, fmt.Errorf("%s -> %s: the receiver's socket dropped %d packets; the machine is too busy", r.Pair.From, r.Pair.To, r.Received.SocketDropped))
		}
	}
	return errors.Join(errs...)
}

// Connections are reports of TCP connections.
type Connections []steady.Report

// Resets is the number of connections that broke.
func (c Connections) Resets() int {
	resets := 0
	for _, r := range c {
		if r.Broken {
			resets++
		}
	}
	return resets
}

// Verified bytes of all of them.
func (c Connections) Verified() int64 {
	var verified int64
	for _, r := range c {
		verified += r.Verified
	}
	return verified
}

// Silence is the longest that any of them had.
func (c Connections) Silence() time.Duration {
	if len(c) == 0 {
		return 0
	}
	quietest := slices.MaxFunc(c, func(a, b steady.Report) int {
		return int(a.LongestSilenceMicroseconds - b.LongestSilenceMicroseconds)
	})
	return time.Duration(quietest.LongestSilenceMicroseconds) * time.Microsecond
}

// Check says which connection did not carry every byte.
func (c Connections) Check() error {
	var errs []error
	for _, r := range c {
		if !r.OK() {
			errs = append(errs, fmt.Errorf("the connection from %s: %d of %d bytes came back: %s", r.Local, r.Verified, r.Sent, r.Error))
		}
	}
	return errors.Join(errs...)
}
