package program

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// probePacket between two addresses.
func probePacket(source, destination string, ttl uint8, from, to uint16, probe Probe) []byte {
	return Serialize(ip(source, destination, ttl, layers.IPProtocolUDP),
		&layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}, gopacket.Payload(probe.String()))
}

func probeFixtures() (all []Fixture) {
	request := Probe{Type: bpfgen.ProbeRequest, Sequence: 9, Clock: 0x0102030405060708, Sender: 77}
	answer, strange, next := request, request, request
	answer.Type, strange.Type, next.Version = bpfgen.ProbeAnswer, 3, 2
	linkAnswer, nodeAnswer := answer, answer
	linkAnswer.OuterFragments, nodeAnswer.Reach = 0x01020304, Example().Reach
	const port = 9812
	add := func(story string, hook uint32, in, out []byte, want Output) {
		want.Packet = out
		all = append(all, Fixture{Story: story, In: Input{Hook: hook, EtherType: 0x0800, Packet: in, Sender: sender(hook), VNI: Example().VNI}, Want: want})
	}
	link := probePacket("240.0.16.0", "100.127.0.0", 61, 5000, port, request)
	add("link probe is reflected", bpfgen.LaneIngress, link, probePacket("100.127.0.0", "240.0.16.0", 64, port, 5000, linkAnswer), Output{Verdict: Redirect})
	bare := append([]byte(nil), link...)
	bare[26], bare[27] = 0, 0
	bareAnswer := probePacket("100.127.0.0", "240.0.16.0", 64, port, 5000, linkAnswer)
	bareAnswer[26], bareAnswer[27] = 0, 0
	add("link probe without checksum is reflected without", bpfgen.LaneIngress, bare, bareAnswer, Output{Verdict: Redirect})
	padded := Serialize(ip("240.0.16.0", "100.127.0.0", 64, layers.IPProtocolUDP), &layers.UDP{SrcPort: 5000, DstPort: port},
		gopacket.Payload(request.String()+string(make([]byte, 1300))))
	paddedAnswer := Serialize(ip("100.127.0.0", "240.0.16.0", 64, layers.IPProtocolUDP), &layers.UDP{SrcPort: port, DstPort: 5000},
		gopacket.Payload(linkAnswer.String()+string(make([]byte, 1300))))
	add("padded link probe is reflected", bpfgen.LaneIngress, padded, paddedAnswer, Output{Verdict: Redirect})
	end := probePacket("240.0.16.0", "100.127.0.0", 61, port, 5000, answer)
	add("answer to a link probe ends", bpfgen.LaneIngress, end, end, Output{Verdict: Drop})
	add("reflected probe leaves as it is", bpfgen.LaneEgress, link, link, Output{Verdict: Pass})
	all[len(all)-1].In.Mark = WireMark
	node := probePacket("100.127.0.2", "100.127.0.1", 64, 5000, port, request)
	add("node probe is reflected", bpfgen.OverlayIngress, node, probePacket("100.127.0.1", "100.127.0.2", 64, port, 5000, nodeAnswer),
		Output{Verdict: Redirect, Framed: true})
	end = probePacket("100.127.0.2", "100.127.0.1", 64, port, 5000, answer)
	add("answer to a node probe ends", bpfgen.OverlayIngress, end, end, Output{Verdict: Drop})
	out := probePacket("100.127.0.1", "100.127.0.2", 64, 5000, port, request)
	add("node probe leaves", bpfgen.OverlayEgress, out, out, Output{Verdict: Pass, Framed: true})

	// What looks like a probe but is not between nodes of ours is data.
	peer := probePacket("100.70.0.9", "100.127.0.1", 64, 5000, port, request)
	add("a peer's datagram to a node's probe port", bpfgen.OverlayIngress, peer, peer, Output{Verdict: Pass, Counted: true})
	all[len(all)-1].In.Sender = TwinUnderlay
	peer = probePacket("100.70.0.9", "100.127.0.1", 64, port, 5000, answer)
	add("a peer's datagram from its probe port", bpfgen.OverlayIngress, peer, peer, Output{Verdict: Pass, Counted: true})
	all[len(all)-1].In.Sender = TwinUnderlay
	pod := probePacket("10.244.1.5", "100.127.0.2", 64, 5000, port, request)
	add("a pod's datagram to a node's probe port", bpfgen.OverlayEgress, pod, pod, Output{Verdict: Pass, Framed: true, Counted: true})

	invalid := map[string][]byte{
		"of a strange type":     probePacket("240.0.16.0", "100.127.0.0", 64, 5000, port, strange),
		"of the next version":   probePacket("240.0.16.0", "100.127.0.0", 64, 5000, port, next),
		"too short":             UDP("240.0.16.0", "100.127.0.0", 5000, port, request.String()[:55]),
		"request from its port": probePacket("240.0.16.0", "100.127.0.0", 64, port, 5000, request),
	}
	for story, packet := range invalid {
		all = append(all, dropped("link probe, "+story, bpfgen.LaneIngress, packet, 1, bpfgen.ReasonProbeInvalid))
	}
	for story, packet := range map[string][]byte{
		"another port":           UDP("240.0.16.0", "100.127.0.0", 5000, 80, request.String()),
		"TCP":                    tcpPacket("240.0.16.0", "100.127.0.0", 64, &layers.TCP{SYN: true}, ""),
		"source alone is host 0": probePacket("240.0.16.0", "100.127.0.1", 64, 5000, port, request),
		"destination alone":      probePacket("240.0.16.1", "100.127.0.0", 64, 5000, port, request),
		"a fragment":             fragments("240.0.16.0", "100.127.0.0", 64)[0],
	} {
		all = append(all, dropped("host 0, "+story, bpfgen.LaneIngress, packet, 1, bpfgen.ReasonProbeAddress))
	}
	return append(all, dropped("host 0, ping of our pod", bpfgen.LaneEgress, loads[2].build("10.244.1.5", "100.71.16.0", 64), 1, bpfgen.ReasonProbeAddress))
}

// stackFixtures end here: the host's stack gets them in local view, unchanged
// at egress.
func stackFixtures() (all []Fixture) {
	add := func(story string, hook uint32, in, out []byte, link uint16, reason bpfgen.Reason, gso uint32) {
		want := Output{Verdict: Pass, Reason: reason, Link: link, Counted: true, Packet: out}
		if hook == bpfgen.LaneEgress {
			want.Verdict, want.Framed = Redirect, true
		}
		if reason == bpfgen.ReasonForwarded {
			want.Verdict, want.Framed = Pass, false
		}
		all = append(all, Fixture{Story: story, In: Input{Hook: hook, EtherType: 0x0800, Packet: in, GSOSize: gso}, Want: want})
	}
	udp := func(s, d string, ttl uint8, length int) []byte {
		return udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), string(make([]byte, length-28)))
	}
	for _, ttl := range []uint8{0, 1} {
		in := udp("10.244.1.5", "100.72.0.9", ttl, 100)
		add(fmt.Sprintf("TTL %d", ttl), bpfgen.LaneEgress, in, in, 3, bpfgen.ReasonTTLExceeded, 0)
		add(fmt.Sprintf("TTL %d, to another node", ttl), bpfgen.LaneIngress, udp("100.72.0.9", "100.90.1.5", ttl, 100),
			udp("100.72.0.9", "10.244.1.5", ttl, 100), 3, bpfgen.ReasonTTLExceeded, 0)
	}
	in := udp("10.244.0.5", "100.72.0.9", 1, 100)
	add("TTL 1 from the own stack", bpfgen.LaneEgress, in, udp("100.90.0.5", "100.72.0.9", 1, 100), 3, bpfgen.ReasonForwarded, 0)
	all[len(all)-1].In.Mark = HopMark
	add("TTL 1 to a pod here is the stack's to judge", bpfgen.LaneIngress, udp("100.72.0.9", "100.90.0.5", 1, 100),
		udp("100.72.0.9", "10.244.0.5", 1, 100), 3, bpfgen.ReasonForwarded, 0)

	add("exactly the MTU", bpfgen.LaneEgress, udp("10.244.1.5", "100.72.0.9", 64, 1400), udp("100.90.1.5", "100.72.0.9", 63, 1400), 3, bpfgen.ReasonForwarded, 0)
	in = udp("10.244.1.5", "100.72.0.9", 64, 1401)
	add("one byte above the MTU", bpfgen.LaneEgress, in, in, 3, bpfgen.ReasonTooBig, 0)
	add("one byte above the MTU, to another node", bpfgen.LaneIngress, udp("100.72.0.9", "100.90.1.5", 64, 1401),
		udp("100.72.0.9", "10.244.1.5", 64, 1401), 3, bpfgen.ReasonTooBig, 0)

	tcp := func(s, d string, ttl uint8) []byte {
		return tcpPacket(s, d, ttl, &layers.TCP{ACK: true, Options: []layers.TCPOption{{OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: make([]byte, 8)},
			{OptionType: layers.TCPOptionKindNop, OptionLength: 1}, {OptionType: layers.TCPOptionKindNop, OptionLength: 1}}}, string(make([]byte, 3500)))
	}
	in = tcp("10.244.1.5", "100.72.0.9", 64)
	add("TCP aggregate of segments that fit", bpfgen.LaneEgress, in, tcp("100.90.1.5", "100.72.0.9", 63), 3, bpfgen.ReasonForwarded, 1348)
	add("TCP aggregate of segments that do not", bpfgen.LaneEgress, in, in, 3, bpfgen.ReasonTooBig, 1349)
	in = udp("10.244.1.5", "100.72.0.9", 64, 3500)
	add("UDP aggregate of segments that fit", bpfgen.LaneEgress, in, udp("100.90.1.5", "100.72.0.9", 63, 3500), 3, bpfgen.ReasonForwarded, 1372)
	add("UDP aggregate of segments that do not", bpfgen.LaneEgress, in, in, 3, bpfgen.ReasonTooBig, 1373)
	sctp := func(s, d string, ttl uint8) []byte {
		return Serialize(ip(s, d, ttl, layers.IPProtocolSCTP), gopacket.Payload(make([]byte, 3500)))
	}
	add("SCTP aggregate, whose parts the stack has measured", bpfgen.LaneEgress, sctp("10.244.1.5", "100.72.0.9", 64), sctp("100.90.1.5", "100.72.0.9", 63),
		3, bpfgen.ReasonForwarded, gsoByFrags)
	return all
}

// passFixtures are left alone, or not what they look like.
func passFixtures() (all []Fixture) {
	payload := append([]byte("not of this world, "), make([]byte, 40)...)
	for name, etherType := range map[string]layers.EthernetType{"ARP": layers.EthernetTypeARP, "LLDP": layers.EthernetTypeLinkLayerDiscovery} {
		for hook := range uint32(bpfgen.Directions) {
			all = append(all, Fixture{Story: name, In: Input{Hook: hook, EtherType: uint16(etherType), Packet: payload, Sender: sender(hook), VNI: Example().VNI},
				Want: Output{Verdict: Pass, Reason: bpfgen.ReasonNotIP, Counted: true, Packet: payload}})
		}
	}
	for _, etherType := range []layers.EthernetType{layers.EthernetTypeDot1Q, layers.EthernetTypeQinQ} {
		tagged := append([]byte{0, 0, 8, 0}, UDP("10.244.1.5", "100.70.0.9", 1, 2, "tagged")...)
		for hook := range uint32(bpfgen.Directions) {
			f := dropped(etherType.String(), hook, tagged, 0, bpfgen.ReasonVLAN)
			f.In.EtherType = uint16(etherType)
			all = append(all, f)
		}
	}
	channel := func(s, d string, from, to layers.TCPPort) []byte {
		header := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: []byte(IP6(s)), DstIP: []byte(IP6(d))}
		return Serialize(header, &layers.TCP{SrcPort: from, DstPort: to, SYN: true, Window: 100})
	}
	solicit := Serialize(&layers.IPv6{Version: 6, HopLimit: 255, NextHeader: layers.IPProtocolICMPv6, SrcIP: []byte(IP6("fe80::1")), DstIP: []byte(IP6("ff02::2"))},
		gopacket.Payload("\x85\x00\x00\x00\x00\x00\x00\x00"))
	v6 := func(story string, hook uint32, packet []byte, want Output) {
		want.Packet, want.Counted = packet, true
		all = append(all, Fixture{Story: story, In: Input{Hook: hook, EtherType: 0x86dd, Packet: packet, Sender: sender(hook), VNI: Example().VNI}, Want: want})
	}
	for _, hook := range []uint32{bpfgen.LaneIngress, bpfgen.LaneEgress} {
		pass, refuse := Output{Verdict: Pass, Reason: bpfgen.ReasonChannel}, Output{Verdict: Drop, Reason: bpfgen.ReasonIPv6}
		v6("channel, to the port", hook, channel("fd79::1", "fd79::2", 5000, 9811), pass)
		v6("channel, from the port", hook, channel("fd79::1", "fd79::2", 9811, 5000), pass)
		v6("channel addresses, another port", hook, channel("fd79::1", "fd79::2", 5000, 9810), refuse)
		v6("channel's port, from another address", hook, channel("fd78::1", "fd79::2", 5000, 9811), refuse)
		v6("channel's port, to another address", hook, channel("fd79::1", "fe80::2", 5000, 9811), refuse)
		v6("channel, cut", hook, channel("fd79::1", "fd79::2", 5000, 9811)[:59], refuse)
		v6("router solicitation", hook, solicit, refuse)
	}
	for _, hook := range []uint32{bpfgen.OverlayIngress, bpfgen.OverlayEgress} {
		v6("router solicitation", hook, solicit, Output{Verdict: Pass, Reason: bpfgen.ReasonNotIP})
		v6("other IPv6", hook, channel("fd79::1", "fd79::2", 5000, 9811), Output{Verdict: Drop, Reason: bpfgen.ReasonIPv6})
	}
	return all
}
