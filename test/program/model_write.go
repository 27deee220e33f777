package program

import (
	"encoding/binary"
	"net/netip"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// quotedPacket is a packet in an ICMP error.
type quotedPacket struct {
	at, l4, end         int // in the packet
	protocol            byte
	hasL4               bool
	source, destination netip.Addr // to be written
}

// quote finds and judges the packet that an ICMP error quotes; nil if this is
// no error.
func (m *model) quote(sourceRow, destinationRow func(netip.Addr) *Row, translate func(*Row, netip.Addr) netip.Addr) (*quotedPacket, error) {
	if !m.ip.isError() {
		return nil, nil
	}
	if m.ip.l4[0] == 5 {
		return nil, drop(bpfgen.ReasonICMPRedirect)
	}
	p := m.in.Packet[:m.ip.length]
	q := &quotedPacket{at: m.ip.headerLength + 8, end: m.ip.length}
	if q.at+20 > q.end || p[q.at]>>4 != 4 || p[q.at]&15 < 5 || q.at+int(p[q.at]&15)*4 > q.end {
		return nil, drop(bpfgen.ReasonQuoteTruncated)
	}
	q.l4, q.protocol = q.at+int(p[q.at]&15)*4, p[q.at+9]
	q.hasL4 = uint16At(p, q.at+6)&0x1fff == 0 && minimum[q.protocol] > 0
	if q.hasL4 && q.end-q.l4 < 8 {
		return nil, drop(bpfgen.ReasonQuoteTruncated)
	}
	if q.hasL4 && q.protocol == 1 && icmpErrors[p[q.l4]] {
		return nil, drop(bpfgen.ReasonQuoteOfError)
	}
	source, destination := netip.AddrFrom4([4]byte(p[q.at+12:q.at+16])), netip.AddrFrom4([4]byte(p[q.at+16:q.at+20]))
	row := sourceRow(source)
	if row == nil {
		return nil, drop(bpfgen.ReasonQuoteNoSource)
	}
	q.source = translate(row, source)
	if row = destinationRow(destination); row == nil {
		return nil, drop(bpfgen.ReasonQuoteNoDestination)
	}
	q.destination = translate(row, destination)
	return q, nil
}

// write the new addresses, innermost first.
func (m *model) write(source, destination netip.Addr, quoted *quotedPacket, hop bool) {
	out, head := m.out.Packet, m.ip.headerLength
	if quoted != nil {
		m.writeAddresses(quoted.at, quoted.source, quoted.destination)
		m.fixChecksum(out, quoted.at+10, quoted.at, quoted.at+20)
		if at, ok := checksumAt[quoted.protocol]; ok && quoted.hasL4 && quoted.l4+at+2 <= quoted.end {
			m.fixL4(quoted.protocol, quoted.l4+at, quoted.at+12, quoted.at+20)
		}
		m.fixChecksum(out, head+2, head, m.ip.length)
	}
	m.writeAddresses(0, source, destination)
	if at, ok := checksumAt[m.ip.protocol]; ok && m.ip.l4 != nil {
		m.fixL4(m.ip.protocol, head+at, 12, 20)
	}
	if hop {
		out[8]--
	}
	m.fixChecksum(out, 10, 0, 20)
}

func (m *model) writeAddresses(at int, source, destination netip.Addr) {
	copy(m.out.Packet[at+12:], source.AsSlice())
	copy(m.out.Packet[at+16:], destination.AsSlice())
}

// fixL4 corrects a checksum whose pseudo header is between from and to.
func (m *model) fixL4(protocol byte, at, from, to int) {
	special := protocol == 17 || protocol == 136
	if special && uint16At(m.out.Packet, at) == 0 {
		return
	}
	m.fixChecksum(m.out.Packet, at, from, to)
	if special {
		m.mangleZero(m.out.Packet, at)
	}
}

func (m *model) mangleZero(out []byte, at int) {
	if uint16At(out, at) == 0 {
		binary.BigEndian.PutUint16(out[at:], 0xffff)
	}
}

// fixChecksum corrects the checksum at a place for what has changed between
// two others, as it was wrong or right before: all are residues modulo 65535,
// of which 0 is written as 0xffff (a sum of anything but zeros is not 0).
func (m *model) fixChecksum(out []byte, at, from, to int) {
	residue, changed := 0xffff-uint16At(out, at), false
	for i := from; i < to; i++ {
		if i == at || i == at+1 || out[i] == m.in.Packet[i] {
			continue
		}
		changed = true
		residue += (int(out[i]) - int(m.in.Packet[i])) << (8 * (1 - (i-from)%2))
	}
	if !changed {
		return
	}
	if residue = ((residue % 0xffff) + 0xffff) % 0xffff; residue == 0 {
		residue = 0xffff
	}
	binary.BigEndian.PutUint16(out[at:], uint16(0xffff-residue))
}

// clamp the segment size in a SYN.
func (m *model) clamp(mtu uint32) {
	if m.ip.protocol != 6 || m.ip.l4 == nil || m.ip.l4[13]&2 == 0 || mtu <= 40 {
		return
	}
	out := m.out.Packet
	end := m.ip.headerLength + int(m.ip.l4[12]>>4)*4
	for at := m.ip.headerLength + 20; at+2 <= end; {
		switch kind, length := out[at], int(out[at+1]); {
		case kind == 0:
			return
		case kind == 1:
			at++
		case kind == 2:
			if length == 4 && at+4 <= end && uint32(uint16At(out, at+2)) > mtu-40 {
				m.writeMSS(at+2, uint16(mtu-40))
			}
			return
		case length < 2:
			return
		default:
			at += length
		}
	}
}

func (m *model) writeMSS(at int, size uint16) {
	before := m.in.Packet
	m.in.Packet = append([]byte(nil), m.out.Packet...) // what the checksum is right for now
	binary.BigEndian.PutUint16(m.out.Packet[at:], size)
	m.fixChecksum(m.out.Packet, m.ip.headerLength+16, m.ip.headerLength, m.ip.length)
	m.in.Packet = before
}
