// Package fabric fills in FabricConfig's status: identity, own networks,
// signed record, and whether the fabric in this cluster works.
package fabric

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/ipam"
)

// maxIndex is how many CIDRs the data plane can number in one cluster.
const maxIndex = 255

// maxNodeNetwork is how many addresses the largest node network has (a /16).
const maxNodeNetwork = 1 << 16

// Exported lists the cluster's networks, one entry a CIDR, without indexes: what
// the spec names, else the detected pod CIDRs, and the node network if it is
// known. IPv4 only. The error is one sentence fit for a condition.
func Exported(spec *v1alpha1.FabricConfigSpec, detected []netip.Prefix, node netip.Prefix) ([]v1alpha1.OwnNetwork, error) {
	var networks []v1alpha1.OwnNetwork
	add := func(name string, kind v1alpha1.NetworkKind, cidr netip.Prefix) {
		if cidr.IsValid() && cidr.Addr().Is4() {
			networks = append(networks, v1alpha1.OwnNetwork{Name: name, Kind: kind, CIDR: v1alpha1.CIDR(cidr.Masked().String())})
		}
	}
	hasPods := false
	for _, n := range spec.Networks {
		if n.Kind == v1alpha1.NetworkNode {
			return nil, fmt.Errorf("spec.networks[%s] has kind Node: Weft makes the node network by itself; remove the entry", n.Name)
		}
		if n.Name == v1alpha1.NodeNetworkName {
			return nil, fmt.Errorf("spec.networks[%s] has the name of the node network, which Weft makes by itself: choose another name", n.Name)
		}
		hasPods = hasPods || n.Kind == v1alpha1.NetworkPod
		for _, cidr := range ipam.ParsePrefixes(n.CIDRs) {
			if !cidr.Addr().Is4() {
				return nil, fmt.Errorf("network %s has CIDR %s, which is not IPv4, the only family of this release: remove it from spec.networks", n.Name, cidr)
			}
			add(n.Name, n.Kind, cidr)
		}
	}
	if !hasPods {
		for _, cidr := range detected {
			add(v1alpha1.PodNetworkName, v1alpha1.NetworkPod, cidr)
		}
	}
	if err := validate(networks); err != nil {
		return nil, err
	}
	if len(networks) == 0 {
		return nil, fmt.Errorf("the pod CIDR of this cluster could not be detected: set spec.networks (weftctl install --pod-cidr)")
	}
	add(v1alpha1.NodeNetworkName, v1alpha1.NetworkNode, node)
	return networks, nil
}

func validate(networks []v1alpha1.OwnNetwork) error {
	if most := channel.MaxNetworks - 1; len(networks) > most { // peers take no more, the node network included
		return fmt.Errorf("spec.networks has %d CIDRs; at most %d are possible: combine neighboring CIDRs", len(networks), most)
	}
	var seen []netip.Prefix
	addresses := uint64(0)
	for _, n := range networks {
		p := netip.MustParsePrefix(string(n.CIDR))
		if err := channel.CheckPrefix(p); err != nil { // no peer would take it
			return fmt.Errorf("network %s cannot hold pods: %w: correct spec.networks", n.Name, err)
		}
		for _, other := range seen {
			if other.Overlaps(p) {
				return fmt.Errorf("network %s has CIDR %s, which overlaps %s: correct spec.networks", n.Name, n.CIDR, other)
			}
		}
		if addresses += 1 << (32 - p.Bits()); addresses > channel.MaxAddresses-maxNodeNetwork {
			return fmt.Errorf("with %s of network %s the cluster exports %d addresses; peers take at most %d: export smaller CIDRs (spec.networks)",
				p, n.Name, addresses, channel.MaxAddresses-maxNodeNetwork)
		}
		seen = append(seen, p)
	}
	return nil
}

// collision names what a network of this cluster must not overlap: its own node
// network and the views of its neighbors, all of which are in use. The error is
// one sentence fit for a condition.
func collision(networks []v1alpha1.OwnNetwork, node netip.Prefix, neighbors []v1alpha1.Neighbor) error {
	for _, n := range networks {
		p, err := netip.ParsePrefix(string(n.CIDR))
		if err != nil || n.Kind == v1alpha1.NetworkNode {
			continue
		}
		if node.IsValid() && node.Overlaps(p) {
			return fmt.Errorf("network %s has CIDR %s, which overlaps the node network %s: choose another CIDR, or unpeer all clusters, delete PrefixClaim %s and peer again",
				n.Name, p, node, ipam.Name(node))
		}
		for i := range neighbors {
			for _, view := range ipam.ParsePrefixes(locals(&neighbors[i])) {
				if view.Overlaps(p) {
					return fmt.Errorf("network %s has CIDR %s, which overlaps %s, the local view of a network of cluster %s: choose another CIDR, or unpeer %s, delete PrefixClaim %s and peer again",
						n.Name, p, view, neighbors[i].Name, neighbors[i].Name, ipam.Name(view))
				}
			}
		}
	}
	return nil
}

func locals(neighbor *v1alpha1.Neighbor) []v1alpha1.CIDR {
	var out []v1alpha1.CIDR
	for _, n := range neighbor.Spec.Networks {
		out = append(out, n.Local)
	}
	return out
}

// AssignIndexes numbers the networks. One that has an index in current keeps
// it; inUse are indexes that rows of neighbors still name, by CIDR, which serve
// as memory if the status was lost and are not given to another CIDR.
func AssignIndexes(networks, current []v1alpha1.OwnNetwork, inUse map[int32]v1alpha1.CIDR) []v1alpha1.OwnNetwork {
	out := slices.Clone(networks)
	taken := map[int32]bool{}
	for index := range inUse {
		taken[index] = true
	}
	for _, c := range current {
		taken[c.Index] = true
	}
	for i := range out {
		out[i].Index = remembered(out[i], current, inUse)
	}
	for i := range out {
		for index := int32(1); out[i].Index == 0 && index <= maxIndex; index++ {
			if !taken[index] {
				taken[index], out[i].Index = true, index
			}
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.OwnNetwork) int { return int(a.Index - b.Index) })
	return out
}

func remembered(n v1alpha1.OwnNetwork, current []v1alpha1.OwnNetwork, inUse map[int32]v1alpha1.CIDR) int32 {
	for _, c := range current {
		if c.CIDR == n.CIDR && c.Name == n.Name && c.Index > 0 {
			return c.Index
		}
	}
	for index, cidr := range inUse {
		if cidr == n.CIDR && !slices.ContainsFunc(current, func(c v1alpha1.OwnNetwork) bool { return c.Index == index }) {
			return index
		}
	}
	return 0
}

// IndexesInUse returns the own networks that rows of neighbors name.
func IndexesInUse(neighbors []v1alpha1.Neighbor) map[int32]v1alpha1.CIDR {
	inUse := map[int32]v1alpha1.CIDR{}
	for i := range neighbors {
		for _, row := range neighbors[i].Spec.Rows {
			if row.Side == v1alpha1.RowTheirs && row.OriginIndex == 0 {
				inUse[row.NetworkIndex] = row.Local
			}
		}
	}
	return inUse
}
