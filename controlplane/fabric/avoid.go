package fabric

import (
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/ipam"
)

// Avoid lists what is never handed out of a pool: own networks, reserved CIDRs,
// service CIDRs, whatever a node has a route to or an address in, node
// addresses, prefixes that neighbors use already, and what is never routed,
// whatever the pools say. A default route occupies nothing.
func Avoid(config *v1alpha1.FabricConfig, nodes []v1alpha1.FabricNode, neighbors []v1alpha1.Neighbor, others []netip.Prefix) []netip.Prefix {
	avoid := slices.Concat(others, v1alpha1.NeverRouted())
	avoid = append(avoid, ipam.ParsePrefixes(config.Spec.ReservedCIDRs)...)
	for _, n := range config.Spec.Networks {
		avoid = append(avoid, ipam.ParsePrefixes(n.CIDRs)...)
	}
	for _, n := range config.Status.Networks {
		avoid = append(avoid, ipam.ParsePrefixes([]v1alpha1.CIDR{n.CIDR})...)
	}
	for i := range nodes {
		for _, p := range ipam.ParsePrefixes(nodes[i].Status.Occupied) {
			if p.Bits() > 0 {
				avoid = append(avoid, p)
			}
		}
		if a, err := netip.ParseAddr(nodes[i].Status.UnderlayAddress); err == nil {
			avoid = append(avoid, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for i := range neighbors {
		for _, n := range neighbors[i].Spec.Networks {
			avoid = append(avoid, ipam.ParsePrefixes([]v1alpha1.CIDR{n.Local})...)
		}
		for _, row := range neighbors[i].Spec.Rows {
			if row.Side == v1alpha1.RowOurs {
				avoid = append(avoid, ipam.ParsePrefixes([]v1alpha1.CIDR{row.Wire})...)
			}
		}
	}
	return avoid
}
