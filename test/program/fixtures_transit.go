package program

import (
	"github.com/google/gopacket/layers"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// transitFixtures are what the ways through a hub leave open: probes, and what
// is refused or ends there. The hub calls Hub's networks 100.70/16 and
// 100.71.16/20, those of Other, which link 3 leads to, 100.72/16 and
// 100.71.32/20, and those of Away, behind the other gateway, 100.75/16 and
// 100.71.64/20.
func transitFixtures() []Fixture {
	return append(append(transitProbes(), refusedProbes()...), transitEnds()...)
}

// transitProbes pass like payload, but are not counted: requests to the probe
// port, and answers from it.
func transitProbes() (all []Fixture) {
	const port = 9812
	for _, kind := range []struct {
		story    string
		from, to uint16
		probe    Probe
	}{
		{"request", 5000, port, Probe{Type: bpfgen.ProbeRequest, Sequence: 9, Clock: 7, Sender: 77}},
		{"answer", port, 5000, Probe{Type: bpfgen.ProbeAnswer, Sequence: 9, Clock: 7, Sender: 77, OuterFragments: 3}},
	} {
		add := func(story string, hook uint32, source, destination string, ttl uint8, newSource, newDestination string, newTTL uint8, want Output) {
			want.Packet = probePacket(newSource, newDestination, newTTL, kind.from, kind.to, kind.probe)
			in := Input{Hook: hook, EtherType: 0x0800, Packet: probePacket(source, destination, ttl, kind.from, kind.to, kind.probe), VNI: Example().VNI}
			if hook == bpfgen.OverlayIngress {
				in.Sender = TwinUnderlay
			}
			all = append(all, Fixture{Story: "probe " + kind.story + " in transit, " + story, In: in, Want: want})
		}
		overlay := Output{Verdict: Redirect, Framed: true}
		add("in", bpfgen.LaneIngress, "240.0.16.0", "240.0.16.0", 64, "100.71.16.0", "100.71.32.0", 64, Output{Verdict: Redirect})
		add("out", bpfgen.LaneEgress, "100.71.16.0", "100.71.32.0", 64, "244.8.16.0", "100.71.32.0", 63, Output{Verdict: Pass})
		add("in, the other way", bpfgen.LaneIngress, "100.71.32.0", "244.8.16.0", 64, "100.71.32.0", "100.71.16.0", 64, Output{Verdict: Redirect})
		add("out, the other way", bpfgen.LaneEgress, "100.71.32.0", "100.71.16.0", 64, "240.0.16.0", "240.0.16.0", 63, Output{Verdict: Pass})
		add("in, to the other gateway's link", bpfgen.LaneIngress, "240.0.16.0", "240.0.64.0", 64, "100.71.16.0", "100.71.64.0", 63, overlay)
		add("to the other gateway", bpfgen.OverlayEgress, "100.71.16.0", "100.71.64.0", 63, "100.71.16.0", "100.71.64.0", 63, Output{Verdict: Pass, Framed: true})
		add("from the other gateway", bpfgen.OverlayIngress, "100.71.64.0", "100.71.16.0", 63, "100.71.64.0", "100.71.16.0", 63, Output{Verdict: Redirect})
	}
	// A path that may not carry payload is probed all the same.
	request := Probe{Type: bpfgen.ProbeRequest, Sequence: 9, Clock: 7, Sender: 77}
	answer := request
	answer.Type = bpfgen.ProbeAnswer
	end := probePacket("242.1.32.0", "244.0.0.0", 61, port, 5000, answer)
	return append(all,
		Fixture{Story: "probe through a hub from a cluster that must come directly is reflected",
			In:   Input{Hook: bpfgen.LaneIngress, EtherType: 0x0800, Packet: probePacket("242.1.32.0", "244.0.0.0", 61, 5000, port, request)},
			Want: Output{Verdict: Redirect, Packet: probePacket("244.0.0.0", "242.1.32.0", 64, port, 5000, answer)}},
		Fixture{Story: "answer through a hub from a cluster that must come directly ends",
			In: Input{Hook: bpfgen.LaneIngress, EtherType: 0x0800, Packet: end}, Want: Output{Verdict: Drop, Packet: end}})
}

// refusedProbes: no probe passes where no payload may, but for the accept bit,
// and host 0 carries nothing else. What is no probe between hosts 0 is data.
func refusedProbes() []Fixture {
	const port = 9812
	request := Probe{Type: bpfgen.ProbeRequest}
	udp := func(s, d string) []byte { return udpPacket(ip(s, d, 64, layers.IPProtocolUDP), "hello") }
	data := probePacket("100.70.0.9", "100.75.0.9", 64, 5000, port, request)
	all := []Fixture{
		dropped("probe in transit that is not allowed", bpfgen.LaneIngress, probePacket("240.0.48.0", "240.0.16.0", 64, 5000, port, request), 1, bpfgen.ReasonNoTransit),
		dropped("probe in transit that is not allowed", bpfgen.LaneEgress, probePacket("100.71.48.0", "100.71.32.0", 64, 5000, port, request), 3, bpfgen.ReasonNoTransit),
		dropped("answer in transit that is not allowed", bpfgen.LaneIngress, probePacket("240.0.48.0", "240.0.16.0", 64, port, 5000, request), 1, bpfgen.ReasonNoTransit),
		dropped("host 0 in transit, another port", bpfgen.LaneIngress, udp("240.0.16.0", "240.0.16.0"), 1, bpfgen.ReasonProbeAddress),
		dropped("host 0 in transit, source alone", bpfgen.LaneIngress, probePacket("240.0.16.0", "240.0.16.1", 64, 5000, port, request), 1, bpfgen.ReasonProbeAddress),
		dropped("host 0 in transit, destination alone", bpfgen.LaneEgress, probePacket("100.71.16.1", "100.71.32.0", 64, 5000, port, request), 3, bpfgen.ReasonProbeAddress),
		dropped("node of a cluster that must come directly", bpfgen.LaneIngress, udp("242.1.32.1", "244.0.0.1"), 2, bpfgen.ReasonNotAccepted),
		// Both Hub and Other may send to Away, but Hub not in Other's name.
		dropped("transit of a cluster behind another hub", bpfgen.LaneIngress, udp("240.1.0.9", "100.84.0.9"), 1, bpfgen.ReasonNoTransit),
		dropped("transit of a cluster that must come directly", bpfgen.LaneIngress, udp("242.2.0.9", "10.245.0.9"), 2, bpfgen.ReasonNoTransit),
		dropped("probe in transit of a cluster behind another hub", bpfgen.LaneIngress, probePacket("240.0.32.0", "240.0.64.0", 64, 5000, port, request), 1, bpfgen.ReasonNoTransit),
		passed("transit, out, datagram of a pod to the probe port", bpfgen.LaneEgress, probePacket("100.70.0.9", "100.72.0.9", 64, 5000, port, request),
			probePacket("244.9.0.9", "100.72.0.9", 63, 5000, port, request), 3),
	}
	toTwin := passed("transit, datagram of a pod to the probe port", bpfgen.OverlayEgress, data, data, 0)
	toTwin.Want.Framed = true
	return append(all, toTwin)
}

// transitEnds: packets whose TTL ends at the hub, or that are too big for what
// comes next. Either end of the crossing hands them to the hub's stack in the
// hub's local view, unchanged by the hook that finds it.
func transitEnds() (all []Fixture) {
	udp := func(s, d string, ttl uint8, length int) []byte {
		return udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), string(make([]byte, length-28)))
	}
	add := func(story string, hook uint32, in, out []byte, want Output) {
		want.Packet, want.Counted = out, true
		all = append(all, Fixture{Story: "transit, " + story, In: Input{Hook: hook, EtherType: 0x0800, Packet: in}, Want: want})
	}
	onward := Output{Verdict: Redirect, Link: 1, Reason: bpfgen.ReasonTransit}
	add("TTL 1 goes on to the lane's egress", bpfgen.LaneIngress, udp("100.70.0.9", "100.81.0.7", 1, 100), udp("100.70.0.9", "100.72.0.7", 1, 100), onward)
	in := udp("100.70.0.9", "100.72.0.7", 1, 100)
	add("TTL 1, out", bpfgen.LaneEgress, in, in, Output{Verdict: Redirect, Framed: true, Link: 3, Reason: bpfgen.ReasonTTLExceeded})
	add("TTL 1, to the other gateway's link", bpfgen.LaneIngress, udp("100.70.0.9", "100.84.0.7", 1, 100), udp("100.70.0.9", "100.75.0.7", 1, 100),
		Output{Verdict: Pass, Link: 1, Reason: bpfgen.ReasonTTLExceeded})
	add("one byte above the next path's MTU goes on to the lane's egress", bpfgen.LaneIngress, udp("100.70.0.9", "100.81.0.7", 64, 1401),
		udp("100.70.0.9", "100.72.0.7", 64, 1401), onward)
	in = udp("100.70.0.9", "100.72.0.7", 64, 1401)
	add("one byte above the next path's MTU, out", bpfgen.LaneEgress, in, in, Output{Verdict: Redirect, Framed: true, Link: 3, Reason: bpfgen.ReasonTooBig})
	add("exactly the next path's MTU, out", bpfgen.LaneEgress, udp("100.70.0.9", "100.72.0.7", 64, 1400), udp("244.9.0.9", "100.72.0.7", 63, 1400),
		Output{Verdict: Pass, Link: 3})
	add("one byte above the own path's MTU, to the other gateway's link", bpfgen.LaneIngress, udp("100.70.0.9", "100.84.0.7", 64, 1441),
		udp("100.70.0.9", "100.75.0.7", 64, 1441), Output{Verdict: Pass, Link: 1, Reason: bpfgen.ReasonTooBig})

	// A probe that the hub cannot pass on is accounted for.
	request := Probe{Type: bpfgen.ProbeRequest}
	probe := probePacket("100.71.16.0", "100.71.32.0", 1, 5000, 9812, request)
	add("TTL 1 of a probe, out", bpfgen.LaneEgress, probe, probe, Output{Verdict: Redirect, Framed: true, Link: 3, Reason: bpfgen.ReasonTTLExceeded})
	add("TTL 1 of a probe, to the other gateway's link", bpfgen.LaneIngress, probePacket("240.0.16.0", "240.0.64.0", 1, 5000, 9812, request),
		probePacket("100.71.16.0", "100.71.64.0", 1, 5000, 9812, request), Output{Verdict: Pass, Link: 1, Reason: bpfgen.ReasonTTLExceeded})
	return all
}
