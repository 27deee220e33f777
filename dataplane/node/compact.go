package node

import (
	"net"
	"net/netip"
	"slices"
)

const (
	// maxOccupied is the number of prefixes that FabricNode.status.occupied
	// holds.
	maxOccupied = 1024
	// minOccupiedBits: what is wider is a default route, whole or in parts.
	minOccupiedBits = 4
)

// prefixOf returns the IPv4 network of n, 0.0.0.0/0 for nil (a default route).
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	a, _ := netip.AddrFromSlice(n.IP.To4())
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a, bits).Masked()
}

// compact sorts the list, drops what another prefix covers, what is a default
// route, loopback, link-local or multicast, and widens the longest prefixes
// until at most limit are left. The result covers all that it was given.
func compact(list []netip.Prefix, limit int) []netip.Prefix {
	list = slices.DeleteFunc(slices.Clone(list), func(p netip.Prefix) bool {
		a := p.Addr()
		return !a.Is4() || p.Bits() < minOccupiedBits || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast()
	})
	for bits := 32; ; bits-- {
		for i, p := range list {
			if p.Bits() > bits {
				list[i] = netip.PrefixFrom(p.Addr(), bits).Masked()
			}
		}
		if list = uncovered(list); len(list) <= limit || bits == minOccupiedBits {
			return list
		}
	}
}

// uncovered sorts the list and drops what an earlier prefix covers.
func uncovered(list []netip.Prefix) []netip.Prefix {
	slices.SortFunc(list, netip.Prefix.Compare)
	var out []netip.Prefix
	for _, p := range list {
		if len(out) == 0 || !out[len(out)-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}
