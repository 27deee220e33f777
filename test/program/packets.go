package program

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Serialize layers to bytes, with lengths and checksums computed by gopacket.
func Serialize(all ...gopacket.SerializableLayer) []byte {
	var network gopacket.NetworkLayer
	for _, layer := range all {
		switch layer := layer.(type) {
		case *layers.IPv4:
			network = layer
		case *layers.IPv6:
			network = layer
		case *layers.TCP:
			must(layer.SetNetworkLayerForChecksum(network))
		case *layers.UDP:
			must(layer.SetNetworkLayerForChecksum(network))
		}
	}
	buffer := gopacket.NewSerializeBuffer()
	must(gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...))
	return append([]byte(nil), buffer.Bytes()...)
}

// IP is an IPv4 header.
func IP(source, destination string, protocol layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Id: 0x1234, Protocol: protocol,
		SrcIP: netip.MustParseAddr(source).AsSlice(), DstIP: netip.MustParseAddr(destination).AsSlice()}
}

// UDP is a datagram in an IPv4 packet.
func UDP(source, destination string, from, to uint16, payload string) []byte {
	return Serialize(IP(source, destination, layers.IPProtocolUDP),
		&layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}, gopacket.Payload(payload))
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("build a packet: %v", err))
	}
}

// Probe is the payload of a probe, laid out by hand after abi.h.
type Probe struct {
	Version, Type  uint8 // version 0 stands for the current one
	Sequence       uint32
	Clock          uint64
	Sender         uint32
	OuterFragments uint32
	Reach          [4]uint64
}

// String is the probe's bytes.
func (p Probe) String() string {
	version := p.Version
	if version == 0 {
		version = 1
	}
	out := []byte{version, p.Type, 0, 0}
	out = binary.BigEndian.AppendUint32(out, p.Sequence)
	out = binary.BigEndian.AppendUint64(out, p.Clock)
	out = binary.BigEndian.AppendUint32(out, p.Sender)
	out = binary.BigEndian.AppendUint32(out, p.OuterFragments)
	for _, word := range p.Reach {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	return string(out)
}

// IP6 is the bytes of an IPv6 address.
func IP6(address string) []byte { return netip.MustParseAddr(address).AsSlice() }
