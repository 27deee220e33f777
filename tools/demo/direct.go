package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

const (
	connection = "a-b"
	// calm lets packets flow before and after whatever happens to them.
	calm = time.Second
	// still is how long the hub is watched while traffic goes directly.
	still = 5 * time.Second
	// stepLimit bounds each change of path.
	stepLimit = time.Minute
)

// directLink joins a and b directly while traffic flows between them, cuts and
// heals the link, and ends it again.
func (d *demo) directLink(ctx context.Context) error {
	pairs, err := d.travellers(ctx)
	if err != nil {
		return err
	}
	before, err := d.c.Transit(ctx)
	if err != nil {
		return err
	}
	d.say("open a TCP connection each way between a and b whose every byte is checked, and send %d numbered UDP packets a second each way", measure.Rate)
	journey, err := measure.StartJourney(ctx, pairs)
	if err != nil {
		return err
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	hub, err := d.stage(ctx, journey, "through c")
	if err != nil {
		return err
	}
	after, err := d.c.Transit(ctx)
	if err != nil {
		return err
	}
	d.report.HubPackets, d.report.HubTransit = hub.Sent(), after.Total()-before.Total()
	d.say("c forwarded %d packets from a and %d from b", after["a"]-before["a"], after["b"]-before["b"])

	for _, step := range []func(context.Context, *measure.Journey) error{d.introduce, d.standStill, d.cut, d.heal, d.withdraw} {
		if err := step(ctx, journey); err != nil {
			return err
		}
	}
	return nil
}

// travellers are the pods whose traffic goes on: those on plain nodes, the
// longest way there is.
func (d *demo) travellers(ctx context.Context) ([]measure.Pair, error) {
	var pairs []measure.Pair
	for _, ends := range [][2]string{{"a", "b"}, {"b", "a"}} {
		pair, err := measure.NewPair(ctx, plainHost(d.hosts[ends[0]]), plainHost(d.hosts[ends[1]]))
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// stage ends a stage of the journey and tells of it.
func (d *demo) stage(ctx context.Context, journey *measure.Journey, what string) (measure.Stage, error) {
	stage, err := journey.Stage(ctx)
	if err != nil {
		return nil, err
	}
	d.tell(stage, what)
	return stage, nil
}

func (d *demo) tell(stage measure.Stage, what string) {
	if rate := stage.LeastRate(); d.report.LeastRate == 0 || rate < d.report.LeastRate {
		d.report.LeastRate = rate
	}
	for _, r := range stage {
		d.say("%s, %s", what, r)
	}
}

// introduce has c introduce a and b to each other, and waits until both send
// directly.
func (d *demo) introduce(ctx context.Context, journey *measure.Journey) error {
	manifest := testbed.Connection(connection, "a", "b", v1alpha1.ModePrefer)
	d.say("kubectl apply in c:")
	if _, err := fmt.Fprint(d.lab.Progress, manifest); err != nil {
		return err
	}
	start := time.Now()
	if err := d.c.Apply(ctx, manifest); err != nil {
		return err
	}
	if err := d.both(ctx, "", stepLimit); err != nil {
		return err
	}
	fcc, err := d.c.WaitPhase(ctx, connection, v1alpha1.PhaseConnected, "", stepLimit)
	if err != nil {
		return err
	}
	d.report.ConnectSeconds = time.Since(start).Seconds()
	d.say("after %.1f s: %s", d.report.ConnectSeconds, testbed.DescribeConnection(fcc))
	if err := d.status(ctx, d.a); err != nil {
		return err
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	// A machine on which all this starts may have been too busy for a moment to
	// answer probes; what follows is about the direct link.
	if err := d.both(ctx, "", stepLimit); err != nil {
		return err
	}
	stage, err := d.stage(ctx, journey, "switch to the direct link")
	d.report.SwitchLost = stage.Lost()
	return err
}

// status shows what a user of the cluster sees.
func (d *demo) status(ctx context.Context, c *testbed.Cluster) error {
	// It fails where something is wrong, and then says what.
	text, err := c.Weftctl(ctx, "status")
	if len(text) == 0 {
		return err
	}
	d.say("weftctl status at %s:", c.Name)
	_, err = d.lab.Progress.Write(text)
	return err
}

// standStill shows that c forwards nothing between a and b while they send
// directly, and then measures their round trip, which the numbered packets rest
// for as they do for the one through c.
func (d *demo) standStill(ctx context.Context, journey *measure.Journey) error {
	before, err := d.c.Transit(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, still); err != nil {
		return err
	}
	stage, err := journey.Rest(ctx)
	if err != nil {
		return err
	}
	d.tell(stage, "direct")
	after, err := d.c.Transit(ctx)
	if err != nil {
		return err
	}
	d.report.DirectPackets, d.report.DirectTransit = stage.Sent(), after.Total()-before.Total()
	if d.report.DirectRTT, err = d.roundTrip(ctx, "a", "b"); err != nil {
		return err
	}
	d.say("c forwarded %d packets meanwhile; round trip a-b directly, median of %d: %.3f ms", d.report.DirectTransit, d.pings, d.report.DirectRTT)
	return journey.Resume(ctx)
}

// cut drops everything between a and b silently.
func (d *demo) cut(ctx context.Context, journey *measure.Journey) error {
	d.say("lab link a b --down")
	if err := d.lab.Cut(ctx, "a", "b"); err != nil {
		return err
	}
	if err := d.both(ctx, "c", stepLimit); err != nil {
		return err
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	stage, err := d.stage(ctx, journey, "fall back to the hub")
	d.report.Failover, d.report.FailoverLost = milliseconds(stage.Silence()), stage.Lost()
	return err
}

// heal lets the link work again.
func (d *demo) heal(ctx context.Context, journey *measure.Journey) error {
	d.say("lab link a b --up")
	if err := d.lab.Heal(ctx, "a", "b"); err != nil {
		return err
	}
	if err := d.both(ctx, "", stepLimit); err != nil {
		return err
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	stage, err := d.stage(ctx, journey, "return to the direct link")
	d.report.RestoreLost = stage.Lost()
	return err
}

// withdraw deletes the connection and ends the journey.
func (d *demo) withdraw(ctx context.Context, journey *measure.Journey) error {
	d.say("kubectl delete foreignclusterconnection %s", connection)
	start := time.Now()
	if err := d.c.Disconnect(ctx, connection, stepLimit); err != nil {
		return err
	}
	d.report.DeleteSeconds = time.Since(start).Seconds()
	if err := d.both(ctx, "c", stepLimit); err != nil {
		return err
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	stage, connections, err := journey.End(ctx)
	if err != nil {
		return err
	}
	d.tell(stage, "back to the hub")
	d.report.RemovalLost = stage.Lost()
	d.report.Connections = len(connections)
	d.report.TCPResets, d.report.TCPBytes = connections.Resets(), connections.Verified()
	d.report.TCPSilence = milliseconds(connections.Silence())
	for _, c := range connections {
		d.say("TCP from %s, seen as %s: %d of %d bytes came back in order, longest silence %.0f ms %s",
			c.Local, c.ObservedSource, c.Verified, c.Sent, float64(c.LongestSilenceMicroseconds)/1000, c.Error)
		if c.OK() {
			d.report.TCPComplete++
		}
	}
	return nil
}

// roundTrip is the median between pods on the gateways, in milliseconds.
func (d *demo) roundTrip(ctx context.Context, from, to string) (float64, error) {
	pair, err := measure.NewPair(ctx, d.hosts[from][0], d.hosts[to][0])
	if err != nil {
		return 0, err
	}
	way := measure.Way{From: pair.From, Target: pair.Target}
	result, err := measure.RTT(ctx, way, d.pings)
	if err != nil {
		return 0, fmt.Errorf("measure the round trip %s-%s: %w", from, to, err)
	}
	return result.MedianMicroseconds / 1000, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// pause lets time pass: here, time itself is what is shown.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
