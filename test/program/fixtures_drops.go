package program

import (
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

func dropFixtures() (all []Fixture) {
	udp := func(s, d string) []byte { return udpPacket(ip(s, d, 64, layers.IPProtocolUDP), "hello") }
	add := func(story string, hook uint32, packet []byte, link uint16, reason bpfgen.Reason) {
		all = append(all, dropped(story, hook, packet, link, reason))
	}
	add("source is nobody's", bpfgen.LaneEgress, udp("8.8.8.8", "100.70.0.9"), 1, bpfgen.ReasonNoSource)
	add("destination is nobody's", bpfgen.LaneEgress, udp("10.244.1.5", "8.8.8.8"), 0, bpfgen.ReasonNoDestination)
	add("destination is our own", bpfgen.LaneEgress, udp("10.244.1.5", "10.244.0.5"), 0, bpfgen.ReasonNotRemote)
	add("transit over another hub", bpfgen.LaneEgress, udp("100.72.0.9", "100.201.2.3"), 2, bpfgen.ReasonNoPath)
	add("transit that is not allowed", bpfgen.LaneEgress, udp("100.201.2.3", "100.70.0.9"), 1, bpfgen.ReasonNoTransit)
	add("service without row on the link", bpfgen.LaneEgress, udp("10.244.200.7", "100.72.0.9"), 3, bpfgen.ReasonNoSourceRow)
	add("transit source without row on the link", bpfgen.LaneEgress, udp("100.74.3.161", "100.70.0.9"), 1, bpfgen.ReasonNoSourceRow)

	add("source is no wire prefix", bpfgen.LaneIngress, udp("10.244.0.9", "100.70.0.5"), 0, bpfgen.ReasonNoSource)
	add("destination is no name of ours on this link", bpfgen.LaneIngress, udp("242.0.0.9", "100.70.0.5"), 2, bpfgen.ReasonNoDestination)
	add("cluster that must come directly", bpfgen.LaneIngress, udp("242.2.0.9", "10.244.1.5"), 2, bpfgen.ReasonNotAccepted)
	add("no pod at the address", bpfgen.LaneIngress, udp("100.70.0.9", "100.70.99.5"), 1, bpfgen.ReasonNoPlace)
	add("transit back to where it came from", bpfgen.LaneIngress, udp("240.1.0.9", "100.81.0.5"), 1, bpfgen.ReasonNoTransit)
	add("transit for a cluster behind the hub", bpfgen.LaneIngress, udp("241.128.0.9", "100.81.0.5"), 1, bpfgen.ReasonNoTransit)

	add("to nobody", bpfgen.OverlayEgress, udp("10.244.0.5", "8.8.8.8"), 0, bpfgen.ReasonNoDestination)
	add("to a pod that is nowhere", bpfgen.OverlayEgress, udp("100.70.0.9", "10.244.99.9"), 0, bpfgen.ReasonNoPlace)
	add("to a pod on another node", bpfgen.OverlayIngress, udp("10.244.1.5", "10.244.1.6"), 0, bpfgen.ReasonNoPlace)
	add("to nobody", bpfgen.OverlayIngress, udp("10.244.1.5", "8.8.8.8"), 0, bpfgen.ReasonNoDestination)
	add("from another node's pod", bpfgen.OverlayIngress, udp("10.244.0.5", "100.70.0.9"), 0, bpfgen.ReasonTunnelSource)
	add("from a remote pod, by a plain node", bpfgen.OverlayIngress, udp("100.70.0.9", "10.244.0.5"), 0, bpfgen.ReasonTunnelSource)
	add("from nobody", bpfgen.OverlayIngress, udp("8.8.8.8", "10.244.0.5"), 0, bpfgen.ReasonTunnelSource)
	add("from a stranger's node", bpfgen.OverlayIngress, udp("10.244.1.5", "100.70.0.9"), 0, bpfgen.ReasonTunnelUnknownNode)
	all[len(all)-1].In.Sender = netip.MustParseAddr("192.168.77.99")
	add("with a wrong VNI", bpfgen.OverlayIngress, udp("10.244.1.5", "100.70.0.9"), 0, bpfgen.ReasonTunnelWrongVNI)
	all[len(all)-1].In.VNI++

	all = append(all, addressDrops()...)
	return append(all, malformedDrops()...)
}

func addressDrops() (all []Fixture) {
	good := map[uint32][2]string{bpfgen.LaneEgress: {"10.244.1.5", "100.70.0.9"}, bpfgen.LaneIngress: {"100.70.0.9", "100.70.0.5"},
		bpfgen.OverlayEgress: {"10.244.0.5", "100.70.0.9"}, bpfgen.OverlayIngress: {"10.244.1.5", "100.70.0.9"}}
	for address, reason := range map[string]bpfgen.Reason{
		"0.0.0.0": bpfgen.ReasonUnspecified, "0.1.2.3": bpfgen.ReasonUnspecified, "127.0.0.1": bpfgen.ReasonLoopback,
		"169.254.77.1": bpfgen.ReasonLinkLocal, "224.0.0.251": bpfgen.ReasonMulticast, "239.255.255.255": bpfgen.ReasonMulticast,
		"255.255.255.255": bpfgen.ReasonBroadcast,
	} {
		for hook, pair := range good {
			all = append(all, dropped("from "+address, hook, udpPacket(ip(address, pair[1], 64, layers.IPProtocolUDP), "x"), 0, reason))
			all = append(all, dropped("to "+address, hook, udpPacket(ip(pair[0], address, 64, layers.IPProtocolUDP), "x"), 0, reason))
		}
	}
	return all
}

// malformedDrops: whatever is wrong with the headers, for every hook.
func malformedDrops() (all []Fixture) {
	const s, d = "10.244.1.5", "100.70.0.9"
	add := func(story string, reason bpfgen.Reason, packet []byte) {
		for hook := range uint32(bpfgen.Directions) {
			all = append(all, dropped(story, hook, packet, 0, reason))
		}
	}
	udp := udpPacket(ip(s, d, 64, layers.IPProtocolUDP), "hello")
	edit := func(packet []byte, change func([]byte)) []byte {
		out := append([]byte(nil), packet...)
		change(out)
		return out
	}
	add("IHL 4", bpfgen.ReasonMalformed, edit(udp, func(p []byte) { p[0] = 0x44 }))
	add("version 6 in an IPv4 frame", bpfgen.ReasonMalformed, edit(udp, func(p []byte) { p[0] = 0x65 }))
	add("header longer than the packet", bpfgen.ReasonMalformed, edit(udp, func(p []byte) { p[0] = 0x4f }))
	add("total length beyond the packet", bpfgen.ReasonMalformed, edit(udp, func(p []byte) { p[3]++ }))
	add("total length less than the header", bpfgen.ReasonMalformed, edit(udp, func(p []byte) { p[3] = 19 }))
	add("total length 0", bpfgen.ReasonMalformed, edit(udp, func(p []byte) { p[3] = 0 }))
	tcp := tcpPacket(s, d, 64, &layers.TCP{ACK: true, Options: []layers.TCPOption{{OptionType: 1, OptionLength: 1}}}, "")
	for name, whole := range map[string][]byte{"TCP": tcp, "UDP": udp[:28], "ICMP": loads[2].build(s, d, 64)[:28]} {
		for length := 20; length < len(whole); length++ {
			// Cut on the way: the IP header promises more.
			add(fmt.Sprintf("%s cut at byte %d", name, length), bpfgen.ReasonMalformed, whole[:length])
			// Sent like that: the IP header agrees.
			if name != "TCP" || length < 44 {
				add(fmt.Sprintf("%s sent with %d bytes", name, length), bpfgen.ReasonTruncated, edit(whole[:length], func(p []byte) { p[3] = byte(length) }))
			}
		}
	}
	add("TCP with a header length of 16", bpfgen.ReasonTruncated, edit(tcp, func(p []byte) { p[32] = 0x40 }))
	add("first fragment without the UDP header", bpfgen.ReasonFragmentTooShort, edit(udp[:24], func(p []byte) { p[3], p[6] = 24, 0x20 }))
	add("first fragment without the TCP options", bpfgen.ReasonFragmentTooShort, edit(tcp[:40], func(p []byte) { p[3], p[6] = 40, 0x20 }))
	add("AH", bpfgen.ReasonAuthenticationHeader, Serialize(IP(s, d, layers.IPProtocolAH), gopacket.Payload("0123456789abcdef")))
	add("AH in a later fragment", bpfgen.ReasonAuthenticationHeader, edit(Serialize(IP(s, d, layers.IPProtocolAH), gopacket.Payload("01234567")), func(p []byte) { p[7] = 5 }))
	return all
}
