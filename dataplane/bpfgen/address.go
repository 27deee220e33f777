package bpfgen

import (
	"encoding/binary"
	"net/netip"
)

// Address4 is an IPv4 address as the programs hold it: four bytes in network
// order. It is zero if the address is not IPv4.
func Address4(address netip.Addr) uint32 {
	if !address.Unmap().Is4() {
		return 0
	}
	bytes := address.Unmap().As4()
	return binary.NativeEndian.Uint32(bytes[:])
}

// FromAddress4 is the inverse of Address4.
func FromAddress4(address uint32) netip.Addr {
	var bytes [4]byte
	binary.NativeEndian.PutUint32(bytes[:], address)
	return netip.AddrFrom4(bytes)
}

// Mask4 is the mask of a prefix length (0..32) as the programs hold it.
func Mask4(bits int) uint32 {
	return Address4(netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), bits).Masked().Addr())
}

// Delta is what replacing the prefix local by wire adds to an Internet
// checksum's sum (RFC 1624), whatever the host bits are: these stay, and share
// no bit with the prefix, so that each 16-bit word changes by a constant. Both
// must be IPv4 prefixes of one length. The way back adds the complement.
func Delta(local, wire netip.Prefix) uint16 {
	sum := words(wire) + uint32(^uint16(fold(words(local))))
	if delta := fold(sum); delta != 0xffff {
		return delta
	}
	return 0 // 0xffff is the other zero of ones' complement
}

// words sums the two 16-bit words of a prefix in native byte order.
func words(prefix netip.Prefix) uint32 {
	bytes := prefix.Masked().Addr().As4()
	return uint32(binary.NativeEndian.Uint16(bytes[:2])) + uint32(binary.NativeEndian.Uint16(bytes[2:]))
}

func fold(sum uint32) uint16 {
	sum = sum&0xffff + sum>>16
	return uint16(sum + sum>>16)
}
