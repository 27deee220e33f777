package program

import (
	"net/netip"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// longest of the prefixes that hold an address; nil: none does.
func longest[T any](all []T, address netip.Addr, prefix func(*T) (netip.Prefix, bool)) *T {
	var found *T
	bits := -1
	for i := range all {
		p, ok := prefix(&all[i])
		if ok && p.Contains(address) && p.Bits() > bits {
			found, bits = &all[i], p.Bits()
		}
	}
	return found
}

func (w *World) networkOf(address netip.Addr) *Network {
	return longest(w.Networks, address, func(n *Network) (netip.Prefix, bool) { return n.Local, true })
}

func (w *World) place(address netip.Addr) *Place {
	return longest(w.Places, address, func(p *Place) (netip.Prefix, bool) { return p.Prefix, true })
}

// wireRow is the row that a wire source belongs to.
func (w *World) wireRow(address netip.Addr) *Row {
	return longest(w.Rows, address, func(r *Row) (netip.Prefix, bool) { return r.Wire, r.Side == bpfgen.SideOurs })
}

// theirRow is the row that a link's neighbor means by an address.
func (w *World) theirRow(link uint16, address netip.Addr) *Row {
	return longest(w.Rows, address, func(r *Row) (netip.Prefix, bool) {
		return r.Wire, r.Side == bpfgen.SideTheirs && r.Link == link
	})
}

func (w *World) row(link uint16, side, cluster, network uint8) *Row {
	for i := range w.Rows {
		r := &w.Rows[i]
		if r.Link == link && r.Side == side && r.Cluster == cluster && r.Network == network {
			return r
		}
	}
	return nil
}

func (w *World) isNode(row *Row) bool {
	network := w.network(row.Cluster, row.Network)
	return network != nil && network.Node
}

func (r *Row) toWire(address netip.Addr) netip.Addr  { return move(address, r.Wire) }
func (r *Row) toLocal(address netip.Addr) netip.Addr { return move(address, r.Local) }

// move an address into a prefix, bit by bit.
func move(address netip.Addr, into netip.Prefix) netip.Addr {
	out, prefix := address.As4(), into.Addr().As4()
	for bit := range into.Bits() {
		mask := byte(0x80) >> (bit % 8)
		out[bit/8] = out[bit/8]&^mask | prefix[bit/8]&mask
	}
	return netip.AddrFrom4(out)
}
