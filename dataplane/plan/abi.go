package plan

import (
	"encoding/binary"
	"net/netip"
)

// The flags and sides of bpf/lib/abi.h, whose macros bpf2go does not carry
// over.
const (
	self = 0

	netValid  = 0x01
	netLonger = 0x02
	netNode   = 0x04

	sideOurs   = 0
	sideTheirs = 1

	linkValid = 0x01

	placeLocal  = 0x01
	placeFabric = 0x02
)

// delta returns what going from local to wire adds to a ones' complement sum
// (RFC 1624, equation 3), in the byte order of the sums that the kernel keeps.
func delta(local, wire netip.Prefix) uint16 {
	l, w := local.Addr().As4(), wire.Addr().As4()
	sum := uint32(binary.NativeEndian.Uint16(w[:2])) + uint32(binary.NativeEndian.Uint16(w[2:])) +
		uint32(^binary.NativeEndian.Uint16(l[:2])) + uint32(^binary.NativeEndian.Uint16(l[2:]))
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
