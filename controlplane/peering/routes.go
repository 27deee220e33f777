package peering

import (
	"net/netip"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// maxHubRoutes bounds the routes through hubs: a peer that no direct route leads
// to is tried on all of them in turn.
const maxHubRoutes = 32

// routesTo lists the ways to the gateways of a cluster: over its own tunnels, then
// through hubs.
func (s *snapshot) routesTo(fc *v1alpha1.ForeignCluster, record *identity.Record) []channel.Route {
	var routes []channel.Route
	var targets []netip.Addr
	for _, id := range gatewayIDs(record) {
		targets = append(targets, identity.ChannelAddress(fc.Spec.Identity, id))
	}
	if direct(fc) {
		for _, target := range targets {
			routes = append(routes, channel.Route{Target: target})
		}
	}
	var hubs []netip.Addr
	for _, hub := range s.hubsOf(fc) {
		n := s.neighborOf(hub)
		if n == nil {
			continue
		}
		for _, peer := range n.Spec.Peers {
			if a, err := netip.ParseAddr(peer.ChannelAddress); err == nil {
				hubs = append(hubs, a)
			}
		}
	}
	return append(routes, pairs(targets, hubs)...)
}

// pairs joins each target with each hub's gateway, at most maxHubRoutes, so that
// the first few differ in both.
func pairs(targets, hubs []netip.Addr) []channel.Route {
	var routes []channel.Route
	for shift := range hubs {
		for i, target := range targets {
			if len(routes) == maxHubRoutes {
				return routes
			}
			routes = append(routes, channel.Route{Target: target, Hub: hubs[(i+shift)%len(hubs)]})
		}
	}
	return routes
}
