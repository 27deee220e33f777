package plan

import (
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// firewall says whom the node's nftables table lets in, and whose source it
// keeps.
func (b *builder) firewall() {
	spec := &b.in.Config.Spec
	f := &Firewall{
		OverlayPort: uint16(spec.Ports.Overlay), ChannelPort: v1alpha1.ChannelPort, ProbePort: v1alpha1.ProbePort,
		OwnPods: b.ownPrefixes(v1alpha1.NetworkPod), OwnNodes: b.ownPrefixes(v1alpha1.NetworkNode),
		FabricAddress: b.plan.Overlay.FabricAddress,
	}
	for _, n := range b.nodes {
		f.Underlays = append(f.Underlays, n.underlay)
	}
	for _, n := range b.accepted {
		for _, v := range n.views {
			f.Foreign = append(f.Foreign, v.local)
			if n.object.Spec.Access.Pods == v1alpha1.PodAccessAll {
				f.Granted = append(f.Granted, v.local)
			}
		}
	}
	for _, lane := range b.plan.Lanes {
		f.LanePorts = append(f.LanePorts, lane.Port)
		if lane.ChannelAddress.IsValid() {
			f.ChannelAddresses = append(f.ChannelAddresses, lane.ChannelAddress)
		}
	}
	slices.SortFunc(f.Underlays, netip.Addr.Compare)
	slices.SortFunc(f.Foreign, netip.Prefix.Compare)
	slices.SortFunc(f.Granted, netip.Prefix.Compare)
	b.plan.Firewall = f
}
