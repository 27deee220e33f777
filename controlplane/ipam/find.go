// Package ipam hands out prefixes: pure search for a free block, and the
// protocol by which two controllers that do not know of each other never hand
// one out twice.
package ipam

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Find returns the first IPv4 block of length bits that lies within a pool and
// overlaps nothing that is taken. Pools are tried in order; those of another
// family or too small for the block are skipped.
func Find(pools, taken []netip.Prefix, bits int) (netip.Prefix, bool) {
	spans := mergedSpans(taken)
	for _, pool := range pools {
		if !pool.Addr().Is4() || pool.Bits() > bits || bits > 32 {
			continue
		}
		if block, ok := findIn(spanOf(pool), spans, bits); ok {
			return block, true
		}
	}
	return netip.Prefix{}, false
}

// span is a range of IPv4 addresses, both ends included. 64 bits, so that the
// address after the last one is a number too.
type span struct{ first, last uint64 }

func spanOf(p netip.Prefix) span {
	bytes := p.Masked().Addr().As4()
	first := uint64(binary.BigEndian.Uint32(bytes[:]))
	return span{first: first, last: first + 1<<(32-p.Bits()) - 1}
}

// mergedSpans returns the IPv4 prefixes as spans that are sorted and disjoint.
func mergedSpans(prefixes []netip.Prefix) []span {
	var spans []span
	for _, p := range prefixes {
		if p.IsValid() && p.Addr().Is4() {
			spans = append(spans, spanOf(p))
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var merged []span
	for _, s := range spans {
		if n := len(merged); n > 0 && s.first <= merged[n-1].last {
			merged[n-1].last = max(merged[n-1].last, s.last)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// findIn walks the pool from span to span; taken is sorted and disjoint.
func findIn(pool span, taken []span, bits int) (netip.Prefix, bool) {
	size := uint64(1) << (32 - bits)
	next := pool.first
	for _, t := range taken {
		if t.last < next {
			continue
		}
		if next+size-1 < t.first {
			break
		}
		next = (t.last + size) / size * size // the first block that starts after t
	}
	if next+size-1 > pool.last {
		return netip.Prefix{}, false
	}
	var addr [4]byte
	binary.BigEndian.PutUint32(addr[:], uint32(next))
	return netip.PrefixFrom(netip.AddrFrom4(addr), bits), true
}

// ParsePrefixes reads CIDR texts and skips what is no prefix: the API server
// has validated them, so only an object from a foreign writer can hold such.
func ParsePrefixes[T ~string](texts []T) []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		if p, err := netip.ParsePrefix(string(text)); err == nil {
			prefixes = append(prefixes, p.Masked())
		}
	}
	return prefixes
}
