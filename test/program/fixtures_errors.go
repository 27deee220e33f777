package program

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// errorWay is an ICMP error through a hook: outer and quoted addresses.
type errorWay struct {
	story        string
	hook         uint32
	outer, inner [2]string
	newOuter     [2]string
	newInner     [2]string
	hop          bool
	want         Output
}

var errorWays = []errorWay{
	{"own pod's error about the hub's packet", bpfgen.LaneEgress,
		[2]string{"10.244.1.5", "100.70.0.9"}, [2]string{"100.70.0.9", "10.244.1.5"},
		[2]string{"100.70.1.5", "100.70.0.9"}, [2]string{"100.70.0.9", "100.70.1.5"}, true, Output{Verdict: Pass, Link: 1}},
	{"error to behind the hub's other gateway", bpfgen.LaneEgress,
		[2]string{"10.244.1.5", "100.201.2.3"}, [2]string{"100.201.2.3", "10.244.200.7"},
		[2]string{"10.244.1.5", "243.73.2.3"}, [2]string{"243.73.2.3", "10.244.16.7"}, true, Output{Verdict: Pass, Link: 2}},
	{"error of a router that nobody exports, as this node", bpfgen.LaneEgress,
		[2]string{"172.16.5.1", "100.201.2.3"}, [2]string{"100.201.2.3", "10.244.1.5"},
		[2]string{"244.0.0.1", "243.73.2.3"}, [2]string{"243.73.2.3", "10.244.1.5"}, true, Output{Verdict: Pass, Link: 2}},
	{"this node's error about a transit packet", bpfgen.LaneEgress,
		[2]string{"100.127.0.1", "100.72.0.9"}, [2]string{"100.72.0.9", "100.70.0.7"},
		[2]string{"244.8.0.1", "100.72.0.9"}, [2]string{"100.72.0.9", "244.9.0.7"}, true, Output{Verdict: Pass, Link: 3}},
	{"hub's node's error about our pod's packet", bpfgen.LaneIngress,
		[2]string{"242.1.16.1", "10.244.1.5"}, [2]string{"10.244.1.5", "242.0.0.9"},
		[2]string{"100.71.16.1", "10.244.1.5"}, [2]string{"10.244.1.5", "100.70.0.9"}, true, Output{Verdict: Redirect, Link: 2, Framed: true}},
	{"hub's error about a packet to a cluster behind it", bpfgen.LaneIngress,
		[2]string{"242.1.16.1", "10.244.16.7"}, [2]string{"10.244.16.7", "243.73.2.3"},
		[2]string{"100.71.16.1", "10.244.200.7"}, [2]string{"10.244.200.7", "100.201.2.3"}, true, Output{Verdict: Redirect, Link: 2, Framed: true}},
	{"error in transit, in", bpfgen.LaneIngress,
		[2]string{"240.0.16.1", "100.81.0.9"}, [2]string{"100.81.0.9", "100.70.0.7"},
		[2]string{"100.71.16.1", "100.72.0.9"}, [2]string{"100.72.0.9", "100.70.0.7"}, false, Output{Verdict: Redirect, Link: 1, Reason: bpfgen.ReasonTransit}},
	{"error in transit, out", bpfgen.LaneEgress,
		[2]string{"100.71.16.1", "100.72.0.9"}, [2]string{"100.72.0.9", "100.70.0.7"},
		[2]string{"244.8.16.1", "100.72.0.9"}, [2]string{"100.72.0.9", "244.9.0.7"}, true, Output{Verdict: Pass, Link: 3}},
	{"error in transit to the other gateway's link, in", bpfgen.LaneIngress,
		[2]string{"240.0.16.1", "100.84.0.9"}, [2]string{"100.84.0.9", "100.70.0.7"},
		[2]string{"100.71.16.1", "100.75.0.9"}, [2]string{"100.75.0.9", "100.70.0.7"}, true, Output{Verdict: Redirect, Link: 1, Framed: true, Reason: bpfgen.ReasonTransit}},
	{"error in transit from the other gateway, out", bpfgen.LaneEgress,
		[2]string{"100.71.64.1", "100.70.0.9"}, [2]string{"100.70.0.9", "100.75.0.7"},
		[2]string{"240.0.64.1", "100.70.0.9"}, [2]string{"100.70.0.9", "100.84.0.7"}, true, Output{Verdict: Pass, Link: 1}},
	{"error of a plain node's router that nobody exports", bpfgen.OverlayIngress,
		[2]string{"172.16.5.1", "100.70.0.9"}, [2]string{"100.70.0.9", "10.244.1.5"},
		[2]string{"172.16.5.1", "100.70.0.9"}, [2]string{"100.70.0.9", "10.244.1.5"}, false, Output{Verdict: Redirect}},
}

// kinds of ICMP errors, with the last four bytes of their header.
var errorKinds = []struct {
	story      string
	kind, code uint8
	id, seq    uint16
}{
	{"host unreachable", 3, 1, 0, 0},
	{"port unreachable", 3, 3, 0, 0},
	{"fragmentation needed, MTU 1400", 3, 4, 0, 1400},
	{"source quench", 4, 0, 0, 0},
	{"time exceeded", 11, 0, 0, 0},
	{"parameter problem", 12, 0, 0x0800, 0},
}

// quotes of a packet, as much of it as a router may quote. The outer checksum
// covers whatever is quoted.
var quotes = []load{
	{"TCP", func(s, d string, ttl uint8) []byte {
		return tcpPacket(s, d, ttl, &layers.TCP{ACK: true}, "some payload, odd")
	}},
	{"TCP cut at 8 bytes", func(s, d string, ttl uint8) []byte { return tcpPacket(s, d, ttl, &layers.TCP{ACK: true}, "")[:28] }},
	{"TCP cut in its checksum, whose half stays", func(s, d string, ttl uint8) []byte {
		return append(tcpPacket(s, d, ttl, &layers.TCP{ACK: true}, "")[:36], 0x55)
	}},
	{"UDP", func(s, d string, ttl uint8) []byte { return udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), "payload") }},
	{"UDP cut at 8 bytes", func(s, d string, ttl uint8) []byte {
		return udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), "payload")[:28]
	}},
	{"UDP without checksum", func(s, d string, ttl uint8) []byte {
		packet := udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), "payload")
		packet[26], packet[27] = 0, 0
		return packet
	}},
	{"echo", func(s, d string, ttl uint8) []byte {
		return Serialize(ip(s, d, ttl, layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 7, Seq: 1})
	}},
	{"SCTP cut at 8 bytes", func(s, d string, ttl uint8) []byte { return opaque(layers.IPProtocolSCTP)(s, d, ttl)[:28] }},
	{"an unknown protocol cut at 0 bytes", func(s, d string, ttl uint8) []byte { return opaque(253)(s, d, ttl)[:20] }},
	{"IP options", func(s, d string, ttl uint8) []byte { return withOptions(4)(s, d, ttl)[:20+16+8] }},
	{"a later fragment", func(s, d string, ttl uint8) []byte { return fragments(s, d, ttl)[1] }},
}

// icmpError about a quoted packet.
func icmpError(header *layers.IPv4, kind, code uint8, id, seq uint16, quoted []byte) []byte {
	return Serialize(header, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, code), Id: id, Seq: seq}, gopacket.Payload(quoted))
}

func errorFixtures() (all []Fixture) {
	for _, way := range errorWays {
		for i, quote := range quotes {
			kind := errorKinds[i%len(errorKinds)]
			all = append(all, way.fixture(kind.story+" about "+quote.story, 64, kind.kind, kind.code, kind.id, kind.seq, quote.build))
		}
		for _, kind := range errorKinds {
			all = append(all, way.fixture(kind.story, 64, kind.kind, kind.code, kind.id, kind.seq, quotes[0].build))
		}
	}
	return append(all, badErrorFixtures()...)
}

func (w errorWay) fixture(story string, ttl, kind, code uint8, id, seq uint16, quote builder) Fixture {
	const quotedTTL = 1
	f := Fixture{Story: w.story + ", " + story, Want: w.want}
	f.In = Input{Hook: w.hook, EtherType: 0x0800, Sender: sender(w.hook), VNI: Example().VNI, Packet: icmpError(ip(w.outer[0], w.outer[1], ttl, layers.IPProtocolICMPv4), kind, code, id, seq,
		quote(w.inner[0], w.inner[1], quotedTTL))}
	if w.hop {
		ttl--
	}
	f.Want.Counted = true
	f.Want.Packet = icmpError(ip(w.newOuter[0], w.newOuter[1], ttl, layers.IPProtocolICMPv4), kind, code, id, seq,
		quote(w.newInner[0], w.newInner[1], quotedTTL))
	return f
}

// badErrorFixtures are errors that cannot be translated.
func badErrorFixtures() (all []Fixture) {
	outer := func() *layers.IPv4 { return ip("10.244.1.5", "100.70.0.9", 64, layers.IPProtocolICMPv4) }
	good := quotes[0].build("100.70.0.9", "10.244.1.5", 1)
	bad := func(story string, reason bpfgen.Reason, kind uint8, quoted []byte) {
		packet := icmpError(outer(), kind, 0, 0, 0, quoted)
		all = append(all, dropped("error "+story, bpfgen.LaneEgress, packet, 1, reason))
	}
	bad("that redirects", bpfgen.ReasonICMPRedirect, 5, good)
	bad("without quote", bpfgen.ReasonQuoteTruncated, 3, nil)
	for _, cut := range []int{1, 10, 19, 20, 27} {
		bad(fmt.Sprintf("whose quote is cut at %d bytes", cut), bpfgen.ReasonQuoteTruncated, 3, good[:cut])
	}
	ihl := append([]byte(nil), good...)
	ihl[0] = 0x4f
	bad("whose quote has IP options beyond the end", bpfgen.ReasonQuoteTruncated, 11, ihl[:56])
	ihl[0] = 0x44
	bad("whose quote has IHL 4", bpfgen.ReasonQuoteTruncated, 11, ihl)
	ihl[0] = 0x65
	bad("whose quote is IPv6", bpfgen.ReasonQuoteTruncated, 11, ihl)
	bad("about an error", bpfgen.ReasonQuoteOfError, 3, icmpError(ip("100.70.0.9", "10.244.1.5", 1, layers.IPProtocolICMPv4), 3, 1, 0, 0, good))
	bad("about a packet from a stranger", bpfgen.ReasonQuoteNoSource, 3, quotes[0].build("8.8.8.8", "10.244.1.5", 1))
	bad("about a packet of our own", bpfgen.ReasonQuoteNoSource, 3, quotes[0].build("10.244.1.5", "10.244.1.5", 1))
	bad("about a packet to a stranger", bpfgen.ReasonQuoteNoDestination, 3, quotes[0].build("100.70.0.9", "192.168.1.1", 1))
	in := icmpError(ip("242.1.16.1", "10.244.1.5", 64, layers.IPProtocolICMPv4), 11, 0, 0, 0, quotes[0].build("10.244.1.5", "100.70.0.9", 1))
	all = append(all, dropped("error about a packet to a prefix of another link", bpfgen.LaneIngress, in, 2, bpfgen.ReasonQuoteNoDestination))
	in = icmpError(ip("242.1.16.1", "10.244.1.5", 64, layers.IPProtocolICMPv4), 3, 4, 0, 576, quotes[0].build("10.244.1.5", "242.2.0.9", 1))
	all = append(all, dropped("hub's error about a packet to a cluster that must come directly", bpfgen.LaneIngress, in, 2, bpfgen.ReasonQuoteNoDestination))
	in = icmpError(ip("242.1.16.1", "10.244.1.5", 64, layers.IPProtocolICMPv4), 11, 0, 0, 0, quotes[0].build("100.90.0.5", "242.0.0.9", 1))
	return append(all, dropped("error about a packet from a name of another link", bpfgen.LaneIngress, in, 2, bpfgen.ReasonQuoteNoSource))
}

// dropped unchanged, with a reason.
func dropped(story string, hook uint32, packet []byte, link uint16, reason bpfgen.Reason) Fixture {
	return Fixture{Story: story, In: Input{Hook: hook, EtherType: 0x0800, Packet: packet, Sender: sender(hook), VNI: Example().VNI},
		Want: Output{Verdict: Drop, Reason: reason, Link: link, Counted: true, Packet: packet}}
}

// sender of packets at overlay ingress: the plain node.
func sender(hook uint32) netip.Addr {
	if hook == bpfgen.OverlayIngress {
		return PlainUnderlay
	}
	return netip.Addr{}
}

// segmentSizeFixtures: the size in SYN and SYN-ACK, by where it stands.
func segmentSizeFixtures() (all []Fixture) {
	syn := func(s, d string, ttl uint8, flags layers.TCP, size uint16, before, after []layers.TCPOption) []byte {
		option := layers.TCPOption{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: binary.BigEndian.AppendUint16(nil, size)}
		flags.Options = append(append(append([]layers.TCPOption{}, before...), option), after...)
		return tcpPacket(s, d, ttl, &flags, "")
	}
	nop := layers.TCPOption{OptionType: layers.TCPOptionKindNop, OptionLength: 1}
	end := layers.TCPOption{OptionType: layers.TCPOptionKindEndList, OptionLength: 1}
	scale := layers.TCPOption{OptionType: layers.TCPOptionKindWindowScale, OptionLength: 3, OptionData: []byte{7}}
	stamps := layers.TCPOption{OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: make([]byte, 8)}
	for _, c := range []struct {
		story         string
		flags         layers.TCP
		from, to      uint16
		before, after []layers.TCPOption
	}{
		{"SYN", layers.TCP{SYN: true}, 1460, 1360, nil, nil},
		{"SYN-ACK", layers.TCP{SYN: true, ACK: true}, 1460, 1360, nil, []layers.TCPOption{scale, nop, stamps}},
		{"SYN with a size that just fits", layers.TCP{SYN: true}, 1360, 1360, nil, nil},
		{"SYN with a small size", layers.TCP{SYN: true}, 536, 536, nil, nil},
		{"SYN with the size at an odd offset", layers.TCP{SYN: true}, 1460, 1360, []layers.TCPOption{nop}, []layers.TCPOption{nop, nop, nop}},
		{"SYN with the size behind others, odd", layers.TCP{SYN: true}, 8960, 1360, []layers.TCPOption{scale, stamps, nop, nop, scale}, []layers.TCPOption{nop}},
		{"SYN with the size last of 40 bytes", layers.TCP{SYN: true}, 8960, 1360, []layers.TCPOption{stamps, stamps, stamps, scale, scale}, nil},
		{"SYN with the size behind the end of options", layers.TCP{SYN: true}, 8960, 8960, []layers.TCPOption{end, nop, nop, nop}, nil},
		{"no SYN", layers.TCP{ACK: true}, 1460, 1460, nil, nil},
	} {
		in, out := c.flags, c.flags
		all = append(all, passed("segment size, "+c.story, bpfgen.LaneEgress, syn("10.244.1.5", "100.72.0.9", 64, in, c.from, c.before, c.after),
			syn("100.90.1.5", "100.72.0.9", 63, out, c.to, c.before, c.after), 3))
		all = append(all, passed("segment size, "+c.story, bpfgen.LaneIngress, syn("100.72.0.9", "100.90.0.5", 64, in, c.from, c.before, c.after),
			syn("100.72.0.9", "10.244.0.5", 64, out, c.to, c.before, c.after), 3))
	}
	bare := func(s, d string, ttl uint8) []byte { return tcpPacket(s, d, ttl, &layers.TCP{SYN: true}, "") }
	all = append(all, passed("SYN without a size gets none", bpfgen.LaneEgress, bare("10.244.1.5", "100.72.0.9", 64), bare("100.90.1.5", "100.72.0.9", 63), 3))
	for story, options := range map[string][]byte{
		"SYN whose size has length 3":              {2, 3, 0xff, 0, 0, 0, 0, 0},
		"SYN whose size is cut":                    {1, 1, 2, 4},
		"SYN with an option of length 0":           {99, 0, 1, 1, 2, 4, 0xff, 0xff},
		"SYN with an option of length 1":           {99, 1, 1, 1, 2, 4, 0xff, 0xff},
		"SYN with an option longer than the space": {99, 200, 1, 1, 2, 4, 0xff, 0xff},
		"SYN with 40 NOPs":                         bytes.Repeat([]byte{1}, 40),
	} {
		build := rawTCP(options...)
		all = append(all, passed("segment size, "+story, bpfgen.LaneEgress, build("10.244.1.5", "100.72.0.9", 64), build("100.90.1.5", "100.72.0.9", 63), 3))
	}
	return all
}

// passed on along the device, changed.
func passed(story string, hook uint32, in, out []byte, link uint16) Fixture {
	return Fixture{Story: story, In: Input{Hook: hook, EtherType: 0x0800, Packet: in},
		Want: Output{Verdict: Pass, Link: link, Counted: true, Packet: out}}
}
