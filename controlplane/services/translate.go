package services

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// Addresses says which of this cluster's endpoints peers can reach.
type Addresses struct {
	pods []netip.Prefix
	// nodes have these addresses.
	nodes map[netip.Addr]bool
}

// AddressesOf returns them for the networks that the cluster exports and its
// nodes.
func AddressesOf(networks []v1alpha1.OwnNetwork, fabricNodes []v1alpha1.FabricNode, nodes []corev1.Node) Addresses {
	out := Addresses{nodes: map[netip.Addr]bool{}}
	for _, n := range networks {
		if prefix, err := netip.ParsePrefix(string(n.CIDR)); err == nil && n.Kind == v1alpha1.NetworkPod {
			out.pods = append(out.pods, prefix)
		}
	}
	add := func(text string) {
		if address, err := netip.ParseAddr(text); err == nil {
			out.nodes[address] = true
		}
	}
	for i := range fabricNodes {
		add(fabricNodes[i].Spec.FabricAddress)
		add(fabricNodes[i].Status.UnderlayAddress)
	}
	for i := range nodes {
		for _, a := range nodes[i].Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				add(a.Address)
			}
		}
	}
	return out
}

// OnNode reports whether an endpoint is in its node's network namespace. Peers
// reach nodes by their fabric addresses, at which agents let nothing through but
// ping, so such an endpoint would take connections that nobody answers. A node's
// address is one also where nodes and pods share a network.
func (a Addresses) OnNode(address netip.Addr) bool { return a.nodes[address] }

// Told returns the address by which peers can name an endpoint: a pod's own.
func (a Addresses) Told(address netip.Addr) (netip.Addr, bool) {
	return address, !a.OnNode(address) && within(a.pods, address)
}

func within(prefixes []netip.Prefix, address netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(address) {
			return true
		}
	}
	return false
}

// Views are the networks of a foreign cluster in local view.
type Views []view

type view struct{ original, local netip.Prefix }

// ViewsOf returns the views that a Neighbor holds; nil has none.
func ViewsOf(n *v1alpha1.Neighbor) Views {
	if n == nil {
		return nil
	}
	var out Views
	for _, network := range n.Spec.Networks {
		original, errOriginal := netip.ParsePrefix(string(network.Original))
		local, errLocal := netip.ParsePrefix(string(network.Local))
		if errOriginal == nil && errLocal == nil && original.Bits() == local.Bits() && original.Addr().Is4() && local.Addr().Is4() {
			out = append(out, view{original, local})
		}
	}
	return out
}

// Local returns the address by which this cluster reaches an endpoint.
func (v Views) Local(original netip.Addr) (netip.Addr, bool) {
	for _, w := range v {
		if w.original.Contains(original) {
			return move(original, w.local), true
		}
	}
	return netip.Addr{}, false
}

// Original is the reverse of Local.
func (v Views) Original(local netip.Addr) (netip.Addr, bool) {
	for _, w := range v {
		if w.local.Contains(local) {
			return move(local, w.original), true
		}
	}
	return netip.Addr{}, false
}

// move keeps the host bits of an IPv4 address and takes the others from a prefix.
func move(address netip.Addr, to netip.Prefix) netip.Addr {
	from, base := address.As4(), to.Masked().Addr().As4()
	for i := range from {
		bits := min(max(to.Bits()-8*i, 0), 8)
		mask := byte(0xff << (8 - bits))
		from[i] = base[i]&mask | from[i]&^mask
	}
	return netip.AddrFrom4(from)
}

// translate returns backends in local view, and how many endpoints have none.
func (v Views) translate(groups []channel.Backends) ([]channel.Backends, int) {
	var out []channel.Backends
	without := 0
	for _, group := range groups {
		moved := channel.Backends{Ports: group.Ports}
		for _, e := range group.Endpoints {
			local, ok := v.Local(e.Address)
			if !ok {
				without++
				continue
			}
			e.Address = local
			moved.Endpoints = append(moved.Endpoints, e)
		}
		if len(moved.Endpoints) > 0 {
			out = append(out, moved)
		}
	}
	return out, without
}
