package probe

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"unsafe"

	"golang.org/x/net/bpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// A probe is an IPv4 header without options, a UDP header, and a
// bpfgen.BorderWeftProbe, whose layout is that of bpf/lib/abi.h.
const (
	ipv4Length  = 20
	udpLength   = 8
	probeLength = int(unsafe.Sizeof(bpfgen.BorderWeftProbe{}))

	offVersion   = int(unsafe.Offsetof(bpfgen.BorderWeftProbe{}.Version))
	offType      = int(unsafe.Offsetof(bpfgen.BorderWeftProbe{}.Type))
	offSequence  = int(unsafe.Offsetof(bpfgen.BorderWeftProbe{}.Sequence))
	offClock     = int(unsafe.Offsetof(bpfgen.BorderWeftProbe{}.ClockNs))
	offSender    = int(unsafe.Offsetof(bpfgen.BorderWeftProbe{}.Sender))
	offFragments = int(unsafe.Offsetof(bpfgen.BorderWeftProbe{}.OuterFragments))
	offReach     = int(unsafe.Offsetof(bpfgen.BorderWeftProbe{}.Reach))

	packetLength = ipv4Length + udpLength + probeLength
	// maxPacket is what an IPv4 header can tell (RFC 791, 3.1).
	maxPacket = 1<<16 - 1
)

// request is what a prober sends.
type request struct {
	source, destination netip.Addr
	port                uint16
	sequence            uint32
	clock               uint64 // nanoseconds, the prober's own
	sender              uint32
	// length in bytes at layer 3; the probe is padded with zeros up to it, and
	// is never shorter than packetLength.
	length int
}

// marshal builds the IPv4 packet. The UDP checksum is 0, "none" (RFC 768): the
// reflector alters the payload, and the tunnel authenticates it.
func (r request) marshal() []byte {
	length := min(max(r.length, packetLength), maxPacket)
	b := make([]byte, length)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(length))
	b[6] = 0x40 // do not fragment
	b[8] = 64   // TTL
	b[9] = 17   // UDP
	src, dst := r.source.As4(), r.destination.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[10:], ^onesSum(b[:ipv4Length]))
	udp := b[ipv4Length:]
	binary.BigEndian.PutUint16(udp[0:], r.port)
	binary.BigEndian.PutUint16(udp[2:], r.port)
	binary.BigEndian.PutUint16(udp[4:], uint16(length-ipv4Length))
	p := udp[udpLength:]
	p[offVersion], p[offType] = bpfgen.ProbeVersion, bpfgen.ProbeRequest
	binary.BigEndian.PutUint32(p[offSequence:], r.sequence)
	binary.BigEndian.PutUint64(p[offClock:], r.clock)
	binary.BigEndian.PutUint32(p[offSender:], r.sender)
	return b
}

// answerPacket is what came back.
type answerPacket struct {
	source, destination netip.Addr
	sequence            uint32
	clock               uint64
	sender              uint32
	outerFragments      uint32
	reach               bpfgen.BorderWeftReach
	length              int // in bytes at layer 3, as the header says
}

var errNoAnswer = errors.New("not an answer to a probe")

// parseAnswer reads an IPv4 packet that the socket filter let through. It
// repeats every check of the filter, since a filter is attached after the
// socket exists.
func parseAnswer(b []byte, port uint16) (answerPacket, error) {
	var a answerPacket
	if len(b) < ipv4Length || b[0]>>4 != 4 || b[9] != 17 {
		return a, errNoAnswer
	}
	headerLength := int(b[0]&0x0f) * 4
	if headerLength < ipv4Length || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 || len(b) < headerLength+udpLength+probeLength {
		return a, errNoAnswer
	}
	udp := b[headerLength:]
	if binary.BigEndian.Uint16(udp[0:]) != port || binary.BigEndian.Uint16(udp[2:]) != port ||
		binary.BigEndian.Uint16(udp[4:]) < uint16(udpLength+probeLength) {
		return a, errNoAnswer
	}
	p := udp[udpLength:]
	if p[offVersion] != bpfgen.ProbeVersion || p[offType] != bpfgen.ProbeAnswer {
		return a, errNoAnswer
	}
	a.length = int(binary.BigEndian.Uint16(b[2:]))
	a.source = netip.AddrFrom4([4]byte(b[12:16]))
	a.destination = netip.AddrFrom4([4]byte(b[16:20]))
	a.sequence = binary.BigEndian.Uint32(p[offSequence:])
	a.clock = binary.BigEndian.Uint64(p[offClock:])
	a.sender = binary.BigEndian.Uint32(p[offSender:])
	a.outerFragments = binary.BigEndian.Uint32(p[offFragments:])
	for i := range a.reach.Bits {
		// The reflector copies the map's words, which are its CPU's.
		a.reach.Bits[i] = binary.NativeEndian.Uint64(p[offReach+8*i:])
	}
	return a, nil
}

// answerFilter lets only answers to this prober through, so that no other
// packet of the device is copied to user space. Offsets count from the network
// header, which is where a SOCK_DGRAM packet socket begins.
func answerFilter(port uint16, sender uint32) ([]bpf.RawInstruction, error) {
	const drop = 15 // index of the last instruction
	skip := func(at int) uint8 { return uint8(drop - at - 1) }
	return bpf.Assemble([]bpf.Instruction{
		0:  bpf.LoadAbsolute{Off: 0, Size: 1},
		1:  bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf0},
		2:  bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x40, SkipTrue: skip(2)},
		3:  bpf.LoadAbsolute{Off: 9, Size: 1},
		4:  bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 17, SkipTrue: skip(4)},
		5:  bpf.LoadAbsolute{Off: 6, Size: 2},
		6:  bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x3fff, SkipTrue: skip(6)},
		7:  bpf.LoadMemShift{Off: 0},
		8:  bpf.LoadIndirect{Off: 0, Size: 4}, // both ports
		9:  bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port)<<16 | uint32(port), SkipTrue: skip(9)},
		10: bpf.LoadIndirect{Off: uint32(udpLength + offVersion), Size: 2},
		11: bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: bpfgen.ProbeVersion<<8 | bpfgen.ProbeAnswer, SkipTrue: skip(11)},
		12: bpf.LoadIndirect{Off: uint32(udpLength + offSender), Size: 4},
		13: bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: sender, SkipTrue: skip(13)},
		14: bpf.RetConstant{Val: maxAnswer},
		15: bpf.RetConstant{Val: 0},
	})
}

// maxAnswer bytes of a packet are read; the rest is padding.
const maxAnswer = 256

// onesSum is the ones' complement sum of RFC 1071 over an even number of bytes.
func onesSum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}
