package program

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// builder of packets that differ in nothing else.
type builder func(source, destination string, ttl uint8) []byte

// load is what a packet carries.
type load struct {
	story string
	build builder
}

// loads of a way. Two depend on its addresses.
func (w way) loads() []load {
	return append([]load{
		{"UDP whose checksum is 0 before", udpZero(w.source, w.destination)},
		{"UDP whose checksum is 0 after", udpZero(w.newSource, w.newDestination)},
	}, loads...)
}

var loads = []load{
	{"TCP", func(s, d string, ttl uint8) []byte { return tcpPacket(s, d, ttl, &layers.TCP{ACK: true}, "even") }},
	{"TCP with an odd length", func(s, d string, ttl uint8) []byte {
		return tcpPacket(s, d, ttl, &layers.TCP{PSH: true, ACK: true}, "odd")
	}},
	{"UDP", func(s, d string, ttl uint8) []byte { return udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), "hello") }},
	{"UDP without checksum", func(s, d string, ttl uint8) []byte {
		packet := udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), "hello")
		packet[26], packet[27] = 0, 0
		return packet
	}},
	{"ICMP echo", func(s, d string, ttl uint8) []byte {
		return Serialize(ip(s, d, ttl, layers.IPProtocolICMPv4), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 7, Seq: 1},
			gopacket.Payload("echo"))
	}},
	{"UDP-Lite", pseudoHeader(layers.IPProtocolUDPLite, 6, "\x01\x02\x03\x04\x00\x08\x00\x00")},
	{"DCCP", pseudoHeader(33, 6, "0123456789abcdef")},
	{"SCTP", opaque(layers.IPProtocolSCTP)},
	{"GRE", opaque(layers.IPProtocolGRE)},
	{"ESP", opaque(layers.IPProtocolESP)},
	{"an unknown protocol", opaque(253)},
	{"an unknown protocol without payload", func(s, d string, ttl uint8) []byte { return Serialize(ip(s, d, ttl, 253)) }},
	{"IP options, 4 bytes", withOptions(1)},
	{"IP options, 40 bytes", withOptions(10)},
	{"DSCP and ECN", func(s, d string, ttl uint8) []byte {
		header := ip(s, d, ttl, layers.IPProtocolUDP)
		header.TOS = 0xbb
		return udpPacket(header, "hello")
	}},
	{"a trailer beyond the IP length", func(s, d string, ttl uint8) []byte {
		return append(udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), "x"), 0xde, 0xad, 0xbe)
	}},
	{"a first fragment", func(s, d string, ttl uint8) []byte { return fragments(s, d, ttl)[0] }},
	{"a middle fragment", func(s, d string, ttl uint8) []byte { return fragments(s, d, ttl)[1] }},
	{"a last fragment of 3 bytes", func(s, d string, ttl uint8) []byte { return fragments(s, d, ttl)[2] }},
}

func ip(source, destination string, ttl uint8, protocol layers.IPProtocol) *layers.IPv4 {
	header := IP(source, destination, protocol)
	header.TTL = ttl
	return header
}

func udpPacket(header *layers.IPv4, payload string) []byte {
	return Serialize(header, &layers.UDP{SrcPort: 4000, DstPort: 53}, gopacket.Payload(payload))
}

func tcpPacket(source, destination string, ttl uint8, tcp *layers.TCP, payload string) []byte {
	tcp.SrcPort, tcp.DstPort, tcp.Seq, tcp.Window = 40000, 443, 0x01020304, 1000
	return Serialize(ip(source, destination, ttl, layers.IPProtocolTCP), tcp, gopacket.Payload(payload))
}

func opaque(protocol layers.IPProtocol) builder {
	return func(s, d string, ttl uint8) []byte {
		return Serialize(ip(s, d, ttl, protocol), gopacket.Payload("0123456789abcdefghijkl"))
	}
}

// pseudoHeader builds a transport header that gopacket does not: bytes and a
// checksum in them, over them and the pseudo header.
func pseudoHeader(protocol layers.IPProtocol, checksumAt int, segment string) builder {
	return func(s, d string, ttl uint8) []byte {
		payload := []byte(segment)
		payload[checksumAt], payload[checksumAt+1] = 0, 0
		pseudo := append(netip.MustParseAddr(s).AsSlice(), netip.MustParseAddr(d).AsSlice()...)
		pseudo = append(pseudo, 0, byte(protocol), 0, byte(len(payload)))
		binary.BigEndian.PutUint16(payload[checksumAt:], onesComplement(append(pseudo, payload...)))
		return Serialize(ip(s, d, ttl, protocol), gopacket.Payload(payload))
	}
}

// rawTCP is a SYN with options as given, a multiple of 4 bytes.
func rawTCP(options ...byte) builder {
	header := "\x00\x01\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00" + string([]byte{byte(5+len(options)/4) << 4}) + "\x02\x01\x00\x00\x00\x00\x00"
	return pseudoHeader(layers.IPProtocolTCP, 16, header+string(options))
}

// onesComplement of the sum of words (RFC 1071).
func onesComplement(data []byte) uint16 {
	var total uint32
	for i := 0; i+1 < len(data); i += 2 {
		total += uint32(data[i])<<8 | uint32(data[i+1])
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}

// udpZero makes datagrams whose checksum between two given addresses is
// computed as 0, and so written as 0xffff (RFC 768). A payload of the checksum
// over a payload of zeros does that.
func udpZero(atSource, atDestination string) builder {
	build := func(s, d string, ttl uint8, word uint16) []byte {
		return udpPacket(ip(s, d, ttl, layers.IPProtocolUDP), string(binary.BigEndian.AppendUint16(nil, word)))
	}
	word := binary.BigEndian.Uint16(build(atSource, atDestination, 64, 0)[26:])
	return func(s, d string, ttl uint8) []byte {
		packet := build(s, d, ttl, word)
		if packet[26] == 0 && packet[27] == 0 {
			packet[26], packet[27] = 0xff, 0xff
		}
		return packet
	}
}

func withOptions(words int) builder {
	return func(s, d string, ttl uint8) []byte {
		header := ip(s, d, ttl, layers.IPProtocolUDP)
		for range words*4 - 1 {
			header.Options = append(header.Options, layers.IPv4Option{OptionType: 1})
		}
		header.Options = append(header.Options, layers.IPv4Option{OptionType: 0})
		return udpPacket(header, "behind options")
	}
}

// fragments of one datagram: first, middle, last.
func fragments(source, destination string, ttl uint8) [3][]byte {
	whole := udpPacket(ip(source, destination, ttl, layers.IPProtocolUDP), "0123456789abcdef0123456789abcdef012")[20:]
	part := func(offset, length int, more bool) []byte {
		header := ip(source, destination, ttl, layers.IPProtocolUDP)
		header.FragOffset = uint16(offset / 8)
		if more {
			header.Flags = layers.IPv4MoreFragments
		}
		return Serialize(header, gopacket.Payload(whole[offset:offset+length]))
	}
	return [3][]byte{part(0, 24, true), part(24, 16, true), part(40, 3, false)}
}
