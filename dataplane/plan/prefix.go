package plan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Lengths of a prefix that the tables hold: a first-level entry covers at most
// 256 slots.
const (
	minBits   = 8
	firstBits = 16
)

// parseNetwork reads a prefix that a table may hold. ok is false for IPv6,
// which these tables do not carry.
func parseNetwork(cidr v1alpha1.CIDR) (p netip.Prefix, ok bool, err error) {
	p, err = netip.ParsePrefix(string(cidr))
	if err != nil {
		return p, false, fmt.Errorf("%.50q is not a CIDR", cidr)
	}
	if p.Addr().Is6() {
		return p, false, nil
	}
	if p != p.Masked() {
		return p, false, fmt.Errorf("%s has host bits; the network is %s", p, p.Masked())
	}
	if p.Bits() < minBits {
		return p, false, fmt.Errorf("%s is wider than /%d", p, minBits)
	}
	for _, n := range v1alpha1.NeverRouted() {
		if n.Overlaps(p) {
			return p, false, fmt.Errorf("%s overlaps %s, which is never routed into a tunnel", p, n)
		}
	}
	return p, true, nil
}

func prefixKey(p netip.Prefix) bpfgen.BorderWeftPrefix4 {
	return bpfgen.BorderWeftPrefix4{Prefix: bpfgen.Address4(p.Addr()), PrefixLen: uint32(p.Bits())}
}

// lengthBit is the bit of a prefix length in a word of lengths.
func lengthBit(p netip.Prefix) uint32 { return 1 << (p.Bits() - 1) }

// insert puts a prefix into a two-level table: up to /16 into every slot of
// the first level that it covers, longer ones into the second level, with the
// sign in the slot. Prefixes of one table are disjoint, so no slot is both.
func insert[V any](first map[uint32]V, long map[bpfgen.BorderWeftPrefix4]V, lengths *uint32, p netip.Prefix, value, longer V) {
	bytes := p.Addr().As4()
	slot := uint32(binary.BigEndian.Uint16(bytes[:2]))
	if p.Bits() > firstBits {
		first[slot] = longer
		long[prefixKey(p)] = value
		*lengths |= lengthBit(p)
		return
	}
	for i := range uint32(1) << (firstBits - p.Bits()) {
		first[slot+i] = value
	}
}

// disjoint is a set of prefixes, none of which overlaps another.
type disjoint struct {
	sorted []owned
}

type owned struct {
	prefix netip.Prefix
	owner  string
}

// add puts p into the set, or says whose prefix it overlaps.
func (d *disjoint) add(p netip.Prefix, owner string) error {
	i, found := slices.BinarySearchFunc(d.sorted, p, func(o owned, p netip.Prefix) int {
		return o.prefix.Addr().Compare(p.Addr())
	})
	// Only the nearest below and the nearest above can overlap p, since those
	// in the set do not overlap each other.
	for _, near := range d.sorted[max(i-1, 0):min(i+1, len(d.sorted))] {
		if near.prefix.Overlaps(p) {
			return fmt.Errorf("%s overlaps %s of %s", p, near.prefix, near.owner)
		}
	}
	if found {
		return fmt.Errorf("%s is listed twice", p)
	}
	d.sorted = slices.Insert(d.sorted, i, owned{p, owner})
	return nil
}

// contains reports whether one prefix of the list covers p.
func contains(list []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(list, func(n netip.Prefix) bool {
		return n.Bits() <= p.Bits() && n.Contains(p.Addr())
	})
}

func checkIndex(index int32) error {
	if index < 1 || index > 255 {
		return errors.New("its index is not within 1 to 255")
	}
	return nil
}
