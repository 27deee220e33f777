package plan

import (
	"fmt"
	"net/netip"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// clusterNode is a node of this cluster that can be reached over the overlay.
type clusterNode struct {
	object   *v1alpha1.FabricNode
	self     bool
	underlay netip.Addr
	// underlayMTU is 0 if the node has not told it.
	underlayMTU int
	// fabric is invalid while the node has no fabric address.
	fabric netip.Addr
}

func (n *clusterNode) placeFlags() uint32 {
	if n.self {
		return bpfgen.PlaceLocal
	}
	return 0
}

// clusterNodes collects the nodes, this one first: what it knows of itself wins
// over what another says.
func (b *builder) clusterNodes() {
	taken := map[netip.Addr]string{}
	b.clusterNode(b.self, taken)
	for i := range b.in.Nodes {
		if n := &b.in.Nodes[i]; n != b.self {
			b.clusterNode(n, taken)
		}
	}
}

// clusterNode adds a node. taken holds who has which underlay or fabric
// address.
func (b *builder) clusterNode(object *v1alpha1.FabricNode, taken map[netip.Addr]string) {
	n := clusterNode{object: object, self: object == b.self, underlayMTU: int(object.Status.UnderlayMTU)}
	if n.self {
		n.underlay, n.underlayMTU = b.in.Facts.Underlay, b.in.Facts.UnderlayMTU
	} else if object.Status.UnderlayAddress == "" {
		return // its agent has not started yet
	} else if a, err := netip.ParseAddr(object.Status.UnderlayAddress); err == nil {
		n.underlay = a
	}
	if !n.underlay.Is4() || taken[n.underlay] != "" {
		b.problem("", "node %s is left out: its underlay address %q is not an IPv4 address of its own", object.Name, object.Status.UnderlayAddress)
		return
	}
	taken[n.underlay] = object.Name
	if object.Spec.FabricAddress != "" {
		if a, err := b.fabricAddress(object, taken); err != nil {
			b.problem("", "node %s has no usable fabric address: %v", object.Name, err)
		} else {
			n.fabric, taken[a] = a, object.Name
		}
	}
	b.nodes = append(b.nodes, n)
	b.plan.Maps.Nodes4[bpfgen.Address4(n.underlay)] = b.gateway(&n)
	b.places(&n)
	if n.fabric.IsValid() {
		b.plan.Names.Nodes = append(b.plan.Names.Nodes, NodeName{Name: object.Name, GatewayID: object.Spec.GatewayID, FabricAddress: n.fabric})
	}
}

func (b *builder) fabricAddress(object *v1alpha1.FabricNode, taken map[netip.Addr]string) (netip.Addr, error) {
	a, err := netip.ParseAddr(object.Spec.FabricAddress)
	if err != nil {
		return a, fmt.Errorf("%.50q is not an address", object.Spec.FabricAddress)
	}
	if taken[a] != "" {
		return a, fmt.Errorf("%s belongs to node %s", a, taken[a])
	}
	for _, network := range b.ownPrefixes(v1alpha1.NetworkNode) {
		if network.Contains(a) {
			if a == network.Addr() {
				return a, fmt.Errorf("%s is host 0 of the node network, which belongs to probes", a)
			}
			return a, nil
		}
	}
	return a, fmt.Errorf("%s is not in a node network of FabricConfig.status.networks", a)
}

// gateway enters the node under its gateway id, if it has one, and returns the
// flags by which the overlay's guard knows the node.
func (b *builder) gateway(n *clusterNode) uint32 {
	id := n.object.Spec.GatewayID
	if id == 0 {
		return 0
	}
	if _, ok := b.plan.Maps.Gateways4[uint32(id)]; ok || id < 1 || id > 255 {
		b.problem("", "node %s is not used as a gateway: its gateway id %d is not unique or not within 1 to 255", n.object.Name, id)
		return 0
	}
	b.plan.Maps.Gateways4[uint32(id)] = bpfgen.BorderWeftGateway4{Underlay: bpfgen.Address4(n.underlay), Flags: n.placeFlags()}
	return bpfgen.NodeGateway
}

// places enters the node's fabric address and pods. A pod prefix outside the
// pod networks is refused: it would win over the fabric's own addresses.
func (b *builder) places(n *clusterNode) {
	if n.fabric.IsValid() {
		b.place(netip.PrefixFrom(n.fabric, 32), bpfgen.BorderWeftPlace4{Underlay: bpfgen.Address4(n.underlay), Flags: n.placeFlags() | bpfgen.PlaceFabric})
	}
	pods := b.ownPrefixes(v1alpha1.NetworkPod)
	refused, first := 0, ""
	for _, cidr := range n.object.Status.PodPrefixes {
		p, ok, err := parseNetwork(cidr)
		if err == nil && !ok {
			continue
		}
		if err != nil || !contains(pods, p) || !b.place(p, bpfgen.BorderWeftPlace4{Underlay: bpfgen.Address4(n.underlay), Flags: n.placeFlags()}) {
			if refused++; refused == 1 {
				first = string(cidr)
			}
		}
	}
	if refused > 0 {
		b.problem("", "%d pod addresses of node %s cannot be reached from other clusters, the first is %.50s: they are outside of this cluster's pod networks or another node has them too; check FabricConfig.spec.networks",
			refused, n.object.Name, first)
	}
}

// place enters a prefix unless another node has it already.
func (b *builder) place(p netip.Prefix, place bpfgen.BorderWeftPlace4) bool {
	key := prefixKey(p)
	if old, ok := b.plan.Maps.Places4[key]; ok && old != place {
		return false
	}
	b.plan.Maps.Places4[key] = place
	b.plan.Maps.Lengths.Places4 |= lengthBit(p)
	return true
}
