package program

import (
	"fmt"
	"net/netip"

	"github.com/google/gopacket/layers"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Fixture is one packet through one hook. Its expected bytes are built from
// the expected addresses, never computed from the input.
type Fixture struct {
	Story string
	In    Input
	Want  Output
}

// Name of the fixture: all of it that is data.
func (f Fixture) Name() string {
	return fmt.Sprintf("%s: %s: %s", directions[f.In.Hook], f.Story, f.Want.Reason)
}

// way is how packets go through a hook, whatever they carry.
type way struct {
	story                     string
	hook                      uint32
	source, destination       string
	newSource, newDestination string
	hop                       bool // this hook decrements the TTL
	mark                      Mark
	sender                    netip.Addr
	want                      Output
}

// Ways through the Example.
var ways = []way{
	{story: "own pod to the hub, W = V", hook: bpfgen.LaneEgress, source: "10.244.1.5", destination: "100.70.0.9",
		newSource: "100.70.1.5", newDestination: "100.70.0.9", hop: true, want: Output{Verdict: Pass, Link: 1}},
	{story: "own pod to the hub, from the own stack", hook: bpfgen.LaneEgress, source: "10.244.0.5", destination: "100.70.0.9",
		newSource: "100.70.0.5", newDestination: "100.70.0.9", mark: HopMark, want: Output{Verdict: Pass, Link: 1}},
	{story: "own service to a cluster behind the hub's other gateway, /9", hook: bpfgen.LaneEgress, source: "10.244.200.7", destination: "100.201.2.3",
		newSource: "10.244.16.7", newDestination: "243.73.2.3", hop: true, want: Output{Verdict: Pass, Link: 2}},
	{story: "own pod, called by its own address", hook: bpfgen.LaneEgress, source: "10.244.1.5", destination: "100.128.0.1",
		newSource: "10.244.1.5", newDestination: "243.0.0.1", hop: true, want: Output{Verdict: Pass, Link: 2}},
	{story: "own node to a /27 of another neighbor", hook: bpfgen.LaneEgress, source: "100.127.0.2", destination: "100.74.3.190",
		newSource: "244.8.0.2", newDestination: "100.74.3.190", hop: true, want: Output{Verdict: Pass, Link: 3}},
	{story: "transit, out", hook: bpfgen.LaneEgress, source: "100.70.3.4", destination: "100.72.5.6",
		newSource: "244.9.3.4", newDestination: "100.72.5.6", hop: true, want: Output{Verdict: Pass, Link: 3}},
	{story: "transit, out, the other way", hook: bpfgen.LaneEgress, source: "100.72.5.6", destination: "100.70.3.4",
		newSource: "100.81.5.6", newDestination: "100.70.3.4", hop: true, want: Output{Verdict: Pass, Link: 1}},
	{story: "transit from the other gateway, out", hook: bpfgen.LaneEgress, source: "100.75.5.6", destination: "100.70.3.4",
		newSource: "100.84.5.6", newDestination: "100.70.3.4", hop: true, want: Output{Verdict: Pass, Link: 1}},

	{story: "hub's pod to a pod here", hook: bpfgen.LaneIngress, source: "100.70.0.9", destination: "100.70.0.5",
		newSource: "100.70.0.9", newDestination: "10.244.0.5", want: Output{Verdict: Pass, Link: 1}},
	{story: "hub's pod to a pod on another node", hook: bpfgen.LaneIngress, source: "242.0.0.9", destination: "10.244.1.5",
		newSource: "100.70.0.9", newDestination: "10.244.1.5", hop: true, want: Output{Verdict: Redirect, Link: 2, Framed: true}},
	{story: "behind the hub to a pod here, longest place wins", hook: bpfgen.LaneIngress, source: "243.73.2.3", destination: "10.244.1.77",
		newSource: "100.201.2.3", newDestination: "10.244.1.77", want: Output{Verdict: Pass, Link: 2}},
	{story: "a name of theirs that is a pod's address here", hook: bpfgen.LaneIngress, source: "100.70.0.9", destination: "10.244.7.5",
		newSource: "100.70.0.9", newDestination: "10.244.200.5", hop: true, want: Output{Verdict: Redirect, Link: 1, Framed: true}},
	{story: "from a /27 to this node", hook: bpfgen.LaneIngress, source: "100.74.3.161", destination: "244.8.0.1",
		newSource: "100.74.3.161", newDestination: "100.127.0.1", want: Output{Verdict: Pass, Link: 3}},
	{story: "from a /27 with another wire prefix", hook: bpfgen.LaneIngress, source: "240.0.0.93", destination: "100.70.0.200",
		newSource: "100.74.3.189", newDestination: "10.244.0.200", want: Output{Verdict: Pass, Link: 1}},
	{story: "transit, in", hook: bpfgen.LaneIngress, source: "100.70.3.4", destination: "100.81.5.6",
		newSource: "100.70.3.4", newDestination: "100.72.5.6", want: Output{Verdict: Redirect, Link: 1, Reason: bpfgen.ReasonTransit}},
	{story: "transit, in, the other way", hook: bpfgen.LaneIngress, source: "100.72.5.6", destination: "244.9.3.4",
		newSource: "100.72.5.6", newDestination: "100.70.3.4", want: Output{Verdict: Redirect, Link: 3, Reason: bpfgen.ReasonTransit}},
	{story: "transit to the other gateway's link, in", hook: bpfgen.LaneIngress, source: "100.70.3.4", destination: "100.84.5.6",
		newSource: "100.70.3.4", newDestination: "100.75.5.6", hop: true, want: Output{Verdict: Redirect, Link: 1, Framed: true, Reason: bpfgen.ReasonTransit}},

	{story: "transit to a cluster that another hub leads to here, in", hook: bpfgen.LaneIngress, source: "100.72.5.6", destination: "245.73.2.3",
		newSource: "100.72.5.6", newDestination: "100.201.2.3", hop: true, want: Output{Verdict: Redirect, Link: 3, Framed: true, Reason: bpfgen.ReasonTransit}},

	{story: "pod here to the hub, by the own lane", hook: bpfgen.OverlayEgress, source: "10.244.0.5", destination: "100.70.0.9",
		newSource: "10.244.0.5", newDestination: "100.70.0.9", want: Output{Verdict: Redirect}},
	{story: "pod here, by the other gateway", hook: bpfgen.OverlayEgress, source: "10.244.0.5", destination: "100.129.0.9",
		newSource: "10.244.0.5", newDestination: "100.129.0.9", want: Output{Verdict: Pass, Framed: true}},
	{story: "transit to the other gateway", hook: bpfgen.OverlayEgress, source: "100.70.3.4", destination: "100.75.5.6",
		newSource: "100.70.3.4", newDestination: "100.75.5.6", want: Output{Verdict: Pass, Framed: true}},
	{story: "to a pod on another node", hook: bpfgen.OverlayEgress, source: "100.70.0.9", destination: "10.244.1.5",
		newSource: "100.70.0.9", newDestination: "10.244.1.5", want: Output{Verdict: Pass, Framed: true}},
	{story: "to a pod here", hook: bpfgen.OverlayEgress, source: "100.70.0.9", destination: "10.244.0.5",
		newSource: "100.70.0.9", newDestination: "10.244.0.5", want: Output{Verdict: Redirect, Framed: true}},

	{story: "plain node's pod to the hub", hook: bpfgen.OverlayIngress, source: "10.244.1.5", destination: "100.70.0.9", sender: PlainUnderlay,
		newSource: "10.244.1.5", newDestination: "100.70.0.9", want: Output{Verdict: Redirect}},
	{story: "other gateway's delivery to a pod here", hook: bpfgen.OverlayIngress, source: "100.70.0.9", destination: "10.244.0.5", sender: TwinUnderlay,
		newSource: "100.70.0.9", newDestination: "10.244.0.5", want: Output{Verdict: Pass}},
	{story: "transit from the other gateway", hook: bpfgen.OverlayIngress, source: "100.75.5.6", destination: "100.70.3.4", sender: TwinUnderlay,
		newSource: "100.75.5.6", newDestination: "100.70.3.4", want: Output{Verdict: Redirect}},
	{story: "redirected by this node", hook: bpfgen.OverlayIngress, source: "10.244.9.9", destination: "100.70.0.9",
		newSource: "10.244.9.9", newDestination: "100.70.0.9", want: Output{Verdict: Pass}},
}

// Fixtures of all hooks in the Example.
func Fixtures() []Fixture {
	var all []Fixture
	for _, way := range ways {
		for _, load := range way.loads() {
			all = append(all, way.fixture(load))
		}
	}
	all = append(all, errorFixtures()...)
	all = append(all, segmentSizeFixtures()...)
	all = append(all, probeFixtures()...)
	all = append(all, transitFixtures()...)
	all = append(all, stackFixtures()...)
	all = append(all, passFixtures()...)
	return append(all, dropFixtures()...)
}

func (w way) fixture(load load) Fixture {
	ttl := uint8(64)
	in := Input{Hook: w.hook, EtherType: uint16(layers.EthernetTypeIPv4), Packet: load.build(w.source, w.destination, ttl),
		Mark: w.mark, Sender: w.sender, VNI: Example().VNI}
	if w.hop {
		ttl--
	}
	want := w.want
	want.Counted = true
	want.Packet = load.build(w.newSource, w.newDestination, ttl)
	return Fixture{Story: w.story + ", " + load.story, In: in, Want: want}
}
