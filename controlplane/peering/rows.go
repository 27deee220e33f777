package peering

import (
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// ourRows map each view to the wire prefix that we chose, over every link: views
// of the neighbor's own networks, and of those of the clusters behind it.
func ourRows(in *neighborInput) []v1alpha1.Row {
	var rows []v1alpha1.Row
	for _, own := range in.OwnGateways {
		for _, remote := range in.gateways() {
			add := func(index, key int32, views []v1alpha1.ViewNetwork) {
				for _, view := range views {
					wire, ok := in.Wires[wireKey{remote.ID, key, view.Original}]
					if !ok {
						continue
					}
					rows = append(rows, v1alpha1.Row{
						Side: v1alpha1.RowOurs, OwnGateway: own, RemoteGateway: remote.ID,
						OriginIndex: index, NetworkIndex: view.Index,
						Local: view.Local, Wire: v1alpha1.CIDR(wire.String()),
					})
				}
			}
			add(in.Index, 0, in.Views)
			for _, o := range in.Behind {
				add(o.Index, o.Index, o.Networks)
			}
		}
	}
	return rows
}

// exportedNetwork is what a neighbor may send to: a network of ours, or of a
// cluster that it reaches through us.
type exportedNetwork struct {
	origin v1alpha1.Identity // empty: ours
	name   string
	cidr   v1alpha1.CIDR // as the origin exports it
	// index of the origin (0: ours) and of the network within it, and the prefix
	// under which this cluster has it.
	originIndex, networkIndex int32
	local                     v1alpha1.CIDR
}

func (in *neighborInput) exportedNetworks() []exportedNetwork {
	var out []exportedNetwork
	for _, n := range in.OwnNetworks {
		out = append(out, exportedNetwork{name: n.Name, cidr: n.CIDR, networkIndex: n.Index, local: n.CIDR})
	}
	for _, o := range in.Forwarded {
		for _, n := range o.Networks {
			out = append(out, exportedNetwork{o.Identity, n.Name, n.Original, o.Index, n.Index, n.Local})
		}
	}
	return out
}

// theirRows map what we export to the wire prefixes that the peer chose. An offer
// for what we do not (or no longer) export to it is passed over: the peer may be
// behind.
func theirRows(in *neighborInput) []v1alpha1.Row {
	exported := in.exportedNetworks()
	remote := map[int32]bool{}
	for _, g := range in.gateways() {
		remote[g.ID] = true
	}
	if in.Offers == nil {
		return keptRows(in, exported, remote)
	}
	type key struct {
		origin v1alpha1.Identity
		name   string
		cidr   netip.Prefix
	}
	known := map[key]exportedNetwork{}
	for _, n := range exported {
		if p, err := netip.ParsePrefix(string(n.cidr)); err == nil {
			known[key{n.origin, n.name, p}] = n
		}
	}
	var rows []v1alpha1.Row
	for _, o := range in.Offers {
		n, ok := known[key{o.Origin, o.Network, o.CIDR}]
		if !ok || !remote[o.SenderGateway] || !slices.Contains(in.OwnGateways, o.ReceiverGateway) {
			continue
		}
		rows = append(rows, v1alpha1.Row{
			Side: v1alpha1.RowTheirs, OwnGateway: o.ReceiverGateway, RemoteGateway: o.SenderGateway,
			OriginIndex: n.originIndex, NetworkIndex: n.networkIndex, Local: n.local, Wire: v1alpha1.CIDR(o.Wire.String()),
		})
	}
	return rows
}

// keptRows are the peer's rows as we know them from an earlier life, as far as
// they are of something that is still exported.
func keptRows(in *neighborInput, exported []exportedNetwork, remote map[int32]bool) []v1alpha1.Row {
	if in.Existing == nil {
		return nil
	}
	type key struct {
		origin, network int32
		local           v1alpha1.CIDR
	}
	still := map[key]bool{}
	for _, n := range exported {
		still[key{n.originIndex, n.networkIndex, n.local}] = true
	}
	var rows []v1alpha1.Row
	for _, row := range in.Existing.Rows {
		if row.Side == v1alpha1.RowTheirs && still[key{row.OriginIndex, row.NetworkIndex, row.Local}] &&
			remote[row.RemoteGateway] && slices.Contains(in.OwnGateways, row.OwnGateway) {
			rows = append(rows, row)
		}
	}
	return rows
}
