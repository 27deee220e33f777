package program

import (
	"encoding/binary"
	"net/netip"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// header is what the model reads of a packet.
type header struct {
	length, headerLength int
	source, destination  netip.Addr
	ttl, protocol        byte
	offset               int // of a fragment, in bytes
	more                 bool
	l4                   []byte // as far as the packet goes; nil in later fragments
}

func putUint32(b []byte, v uint32)  { binary.BigEndian.PutUint32(b, v) }
func uint16At(b []byte, at int) int { return int(binary.BigEndian.Uint16(b[at:])) }

// minimum bytes of the transport headers that are looked into.
var minimum = map[byte]int{1: 8, 6: 20, 17: 8, 33: 12, 136: 8}

// checksumAt is where the checksum with a pseudo header is.
var checksumAt = map[byte]int{6: 16, 17: 6, 33: 6, 136: 6}

var icmpErrors = map[byte]bool{3: true, 4: true, 5: true, 11: true, 12: true}

func (h *header) fragment() bool { return h.offset > 0 || h.more }
func (h *header) isError() bool  { return h.protocol == 1 && h.l4 != nil && icmpErrors[h.l4[0]] }

func (m *model) parse() error {
	p := m.in.Packet
	if len(p) < 20 || p[0]>>4 != 4 || p[0]&15 < 5 {
		return drop(bpfgen.ReasonMalformed)
	}
	h := &m.ip
	h.headerLength, h.length = int(p[0]&15)*4, uint16At(p, 2)
	if h.length == 0 && m.in.GSOSize > 0 {
		h.length = len(p)
	}
	if h.length < h.headerLength || h.length > len(p) {
		return drop(bpfgen.ReasonMalformed)
	}
	h.source, h.destination = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	h.ttl, h.protocol = p[8], p[9]
	h.offset, h.more = uint16At(p, 6)&0x1fff*8, p[6]&0x20 != 0
	if h.protocol == 51 {
		return drop(bpfgen.ReasonAuthenticationHeader)
	}
	l4 := p[h.headerLength:h.length]
	if h.offset > 0 || minimum[h.protocol] == 0 {
		return nil
	}
	if len(l4) < minimum[h.protocol] || h.protocol == 6 && (l4[12]>>4 < 5 || int(l4[12]>>4)*4 > len(l4)) {
		if h.more {
			return drop(bpfgen.ReasonFragmentTooShort)
		}
		return drop(bpfgen.ReasonTruncated)
	}
	h.l4 = l4
	return nil
}

func (m *model) checkAddresses() error {
	for _, address := range []netip.Addr{m.ip.source, m.ip.destination} {
		for _, special := range []struct {
			prefix string
			reason bpfgen.Reason
		}{
			{"0.0.0.0/8", bpfgen.ReasonUnspecified}, {"127.0.0.0/8", bpfgen.ReasonLoopback},
			{"169.254.0.0/16", bpfgen.ReasonLinkLocal}, {"224.0.0.0/4", bpfgen.ReasonMulticast},
			{"255.255.255.255/32", bpfgen.ReasonBroadcast},
		} {
			if netip.MustParsePrefix(special.prefix).Contains(address) {
				return drop(special.reason)
			}
		}
	}
	return nil
}

// lane tells what a lane carries; done: it is not for translation.
func (m *model) lane() (done bool, err error) {
	switch m.in.EtherType {
	case 0x86dd:
		p := m.in.Packet
		channel := []byte{0xfd, 0x79}
		if len(p) < 60 || p[0]>>4 != 6 || p[6] != 6 || string(p[8:10]) != string(channel) || string(p[24:26]) != string(channel) ||
			uint16At(p, 40) != int(m.ChannelPort) && uint16At(p, 42) != int(m.ChannelPort) {
			return true, drop(bpfgen.ReasonIPv6)
		}
		m.out.Reason = bpfgen.ReasonChannel
		return true, nil
	case 0x0800:
		return false, m.parseAndCheck()
	case 0x8100, 0x88a8:
		return true, drop(bpfgen.ReasonVLAN)
	}
	m.out.Reason = bpfgen.ReasonNotIP
	return true, nil
}

// overlay does the same for the overlay.
func (m *model) overlay() (done bool, err error) {
	switch m.in.EtherType {
	case 0x86dd:
		p := m.in.Packet
		if len(p) < 41 || p[6] != 58 || p[40] < 133 || p[40] > 137 {
			return true, drop(bpfgen.ReasonIPv6)
		}
	case 0x0800:
		return false, m.parseAndCheck()
	case 0x8100, 0x88a8:
		return true, drop(bpfgen.ReasonVLAN)
	}
	m.out.Reason = bpfgen.ReasonNotIP
	return true, nil
}

func (m *model) parseAndCheck() error {
	if err := m.parse(); err != nil {
		return err
	}
	return m.checkAddresses()
}

// gsoByFrags is GSO_BY_FRAGS: an aggregate whose parts differ in size (SCTP).
const gsoByFrags = 0xffff

// ends says that the host's stack has to see the packet.
func (m *model) ends(hop bool, mtu uint32) bool {
	if hop && m.ip.ttl <= 1 {
		m.out.Reason = bpfgen.ReasonTTLExceeded
		return true
	}
	length := uint32(m.ip.length)
	if m.in.GSOSize == gsoByFrags {
		return false
	}
	if m.in.GSOSize > 0 {
		length = uint32(m.ip.headerLength) + m.in.GSOSize
		if m.ip.protocol == 6 && m.ip.l4 != nil {
			length += uint32(m.ip.l4[12]>>4) * 4
		} else if m.ip.l4 != nil {
			length += uint32(minimum[m.ip.protocol])
		}
	}
	if mtu > 0 && length > mtu {
		m.out.Reason = bpfgen.ReasonTooBig
		return true
	}
	return false
}

func (m *model) isProbe() bool {
	if m.ip.protocol != 17 || m.ip.fragment() {
		return false
	}
	port := int(m.ProbePort)
	return uint16At(m.ip.l4, 0) == port || uint16At(m.ip.l4, 2) == port
}

// isNodeProbe: of one node of this cluster to another.
func (m *model) isNodeProbe() bool {
	from, to := m.place(m.ip.source), m.place(m.ip.destination)
	return m.isProbe() && from != nil && from.Fabric && to != nil && to.Fabric
}

// isLaneProbe: of one neighbor to another, on its way through the overlay.
func (m *model) isLaneProbe(to *Network) bool {
	from := m.networkOf(m.ip.source)
	return m.isProbe() && to.Node && m.ip.destination == to.Local.Addr() && from != nil && from.Node && m.ip.source == from.Local.Addr()
}

func (m *model) checkHost0(fromNode bool, fromRow *Row, toNode bool, toRow *Row) (isProbe bool, err error) {
	host0 := func(node bool, row *Row, address netip.Addr) bool {
		return node && netip.PrefixFrom(address, row.Wire.Bits()).Masked().Addr() == address
	}
	from, to := host0(fromNode, fromRow, m.ip.source), host0(toNode, toRow, m.ip.destination)
	if !from && !to {
		return false, nil
	}
	if from && to && m.isProbe() {
		return true, nil
	}
	return false, drop(bpfgen.ReasonProbeAddress)
}

// reflect turns a probe around.
func (m *model) reflect(fill func(probe []byte), framed bool) error {
	payload := m.ip.l4[8:]
	if len(payload) < 56 || payload[0] != 1 {
		return drop(bpfgen.ReasonProbeInvalid)
	}
	switch {
	case payload[1] == 2:
		m.out.Verdict, m.out.Counted = Drop, false
		return nil
	case payload[1] != 1 || uint16At(m.ip.l4, 2) != int(m.ProbePort):
		return drop(bpfgen.ReasonProbeInvalid)
	}
	out := m.out.Packet
	copy(out[12:16], m.in.Packet[16:20])
	copy(out[16:20], m.in.Packet[12:16])
	out[8] = 64
	m.fixChecksum(out, 10, 0, m.ip.headerLength)
	l4 := out[m.ip.headerLength:m.ip.length]
	copy(l4[0:2], m.ip.l4[2:4])
	copy(l4[2:4], m.ip.l4[0:2])
	l4[9] = 2
	fill(l4[8:])
	if uint16At(l4, 6) != 0 {
		m.fixChecksum(out, m.ip.headerLength+6, m.ip.headerLength+8, m.ip.headerLength+64)
		m.mangleZero(out, m.ip.headerLength+6)
	}
	m.out.Verdict, m.out.Counted, m.out.Framed = Redirect, false, framed
	return nil
}

// flowHash is MurmurHash3's finalizer over addresses and ports, each as the
// machine (little-endian) reads them from the packet.
func (m *model) flowHash() uint32 {
	words := []uint32{binary.LittleEndian.Uint32(m.in.Packet[12:]), binary.LittleEndian.Uint32(m.in.Packet[16:])}
	if !m.ip.fragment() {
		ports := uint32(0)
		if m.ip.l4 != nil && m.ip.protocol != 1 {
			ports = uint32(binary.LittleEndian.Uint16(m.ip.l4))<<16 | uint32(binary.LittleEndian.Uint16(m.ip.l4[2:]))
		}
		words = append(words, ports)
	}
	hash := uint32(0)
	for _, word := range words {
		hash ^= word
		hash ^= hash >> 16
		hash *= 0x85ebca6b
		hash ^= hash >> 13
		hash *= 0xc2b2ae35
		hash ^= hash >> 16
	}
	return hash
}
