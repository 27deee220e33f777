package peering

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// offersOf lists the wire prefixes of our rows as the peer must hear of them:
// for its own networks, and for those of clusters behind it.
func offersOf(spec *v1alpha1.NeighborSpec, behind []origin) []channel.Offer {
	type index struct{ origin, network int32 }
	type network struct {
		origin v1alpha1.Identity
		name   string
		cidr   netip.Prefix
	}
	networks := map[index]network{}
	note := func(o origin) {
		for _, n := range o.Networks {
			if cidr, err := netip.ParsePrefix(string(n.Original)); err == nil {
				networks[index{o.Index, n.Index}] = network{o.Identity, n.Name, cidr}
			}
		}
	}
	note(origin{Index: spec.ClusterIndex, Networks: spec.Networks})
	for _, o := range behind {
		note(o)
	}
	offers := []channel.Offer{}
	for _, row := range spec.Rows {
		n, known := networks[index{row.OriginIndex, row.NetworkIndex}]
		wire, err := netip.ParsePrefix(string(row.Wire))
		if row.Side != v1alpha1.RowOurs || !known || err != nil {
			continue
		}
		offers = append(offers, channel.Offer{
			ReceiverGateway: row.RemoteGateway, SenderGateway: row.OwnGateway,
			Origin: n.origin, Network: n.name, CIDR: n.cidr, Wire: wire,
		})
	}
	return offers
}

// nextAnnounced returns which offers the peer may know now (make before break).
// What is in place everywhere is announced; until it is, what was announced
// stands as far as its rows still exist. Nil means: not known, the peer keeps
// what it has.
func nextAnnounced(current, announced []channel.Offer, inPlace bool) []channel.Offer {
	if inPlace {
		return current
	}
	if announced == nil {
		return nil
	}
	kept := []channel.Offer{}
	for _, o := range announced {
		if slices.Contains(current, o) {
			kept = append(kept, o)
		}
	}
	return kept
}

// inPlace reports whether every ready gateway holds this generation of the
// Neighbor, and else names what it waits for. Without a ready gateway nothing
// is in place.
func inPlace(neighbor *v1alpha1.Neighbor, nodes []v1alpha1.FabricNode, ready func(*v1alpha1.FabricNode) bool) (bool, string) {
	gateways := 0
	for i := range nodes {
		n := &nodes[i]
		if n.Spec.GatewayID == 0 || !ready(n) {
			continue
		}
		gateways++
		if !holds(n, neighbor) {
			return false, fmt.Sprintf("gateway %s has not put generation %d in place yet", n.Name, neighbor.Generation)
		}
	}
	if gateways == 0 {
		return false, "no gateway of this cluster is ready"
	}
	return true, ""
}

func holds(n *v1alpha1.FabricNode, neighbor *v1alpha1.Neighbor) bool {
	return slices.ContainsFunc(n.Status.Applied, func(a v1alpha1.AppliedNeighbor) bool {
		return a.Name == neighbor.Name && a.UID == neighbor.UID && a.Generation >= neighbor.Generation
	})
}
