// Package node finds out what Weft has to know of the node that it runs on:
// the underlay and the prefixes that are taken.
package node

import "net/netip"

// Facts of a node, as far as a plan depends on them.
type Facts struct {
	// Underlay is where the other nodes of the cluster reach this one.
	Underlay netip.Addr
	// UnderlayDevice carries Underlay, and UnderlayMTU is its MTU in bytes.
	UnderlayDevice string
	UnderlayMTU    int
	// Occupied are the prefixes of addresses and routes that Weft did not make,
	// sorted and without duplicates.
	Occupied []netip.Prefix
}
