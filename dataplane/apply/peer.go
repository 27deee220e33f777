package apply

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// peerChanges returns what makes the peers of a lane as planned, without ever
// taking anything away: the configurations to add or update. Endpoints are
// not part of it.
//
//	planned, absent       add with all AllowedIPs
//	planned, present      add the missing AllowedIPs, set the keepalive
func peerChanges(want []plan.Peer, have []wgtypes.Peer) []wgtypes.PeerConfig {
	present := map[wgtypes.Key]wgtypes.Peer{}
	for _, peer := range have {
		present[peer.PublicKey] = peer
	}
	var changes []wgtypes.PeerConfig
	for _, peer := range want {
		keepalive := peer.Keepalive
		current, exists := present[peer.PublicKey]
		if !exists {
			changes = append(changes, wgtypes.PeerConfig{
				PublicKey:                   peer.PublicKey,
				PersistentKeepaliveInterval: &keepalive,
				AllowedIPs:                  toIPNets(peer.AllowedIPs),
			})
			continue
		}
		change := wgtypes.PeerConfig{PublicKey: peer.PublicKey, UpdateOnly: true}
		if current.PersistentKeepaliveInterval != keepalive {
			change.PersistentKeepaliveInterval = &keepalive
		}
		change.AllowedIPs = toIPNets(without(peer.AllowedIPs, toPrefixes(current.AllowedIPs)))
		if change.PersistentKeepaliveInterval != nil || len(change.AllowedIPs) > 0 {
			changes = append(changes, change)
		}
	}
	return changes
}

// peerRemovals returns, in order, what takes away the peers and AllowedIPs that
// are not planned. Replacing a peer's AllowedIPs would empty the list first and
// lose packets, and WireGuard cannot remove a single one in all kernels; but an
// address belongs to one peer only, so giving it to a stand-in takes it away.
func peerRemovals(want []plan.Peer, have []wgtypes.Peer, standIn wgtypes.Key) []wgtypes.PeerConfig {
	planned := map[wgtypes.Key]plan.Peer{}
	for _, peer := range want {
		planned[peer.PublicKey] = peer
	}
	var removals []wgtypes.PeerConfig
	var surplus []netip.Prefix
	for _, peer := range have {
		if keep, ok := planned[peer.PublicKey]; ok {
			surplus = append(surplus, without(toPrefixes(peer.AllowedIPs), keep.AllowedIPs)...)
			continue
		}
		removals = append(removals, wgtypes.PeerConfig{PublicKey: peer.PublicKey, Remove: true})
	}
	if len(surplus) > 0 {
		removals = append(removals,
			wgtypes.PeerConfig{PublicKey: standIn, AllowedIPs: toIPNets(surplus)},
			wgtypes.PeerConfig{PublicKey: standIn, Remove: true})
	}
	return removals
}

// without returns the prefixes that are not in others.
func without(prefixes, others []netip.Prefix) []netip.Prefix {
	var rest []netip.Prefix
	for _, prefix := range prefixes {
		if !slices.Contains(others, prefix.Masked()) {
			rest = append(rest, prefix.Masked())
		}
	}
	return rest
}

// ensurePeers adds peers to the lanes that are guarded on all sides.
func (r *run) ensurePeers() {
	r.eachLane(func(client *wgctrl.Client, want plan.Lane, have *wgtypes.Device) error {
		if !r.guarded[want.Device] || !r.walled {
			return nil // what is missing has been reported
		}
		changes := withEndpoints(peerChanges(want.Peers, have.Peers), r.endpointChanges(want, have))
		for _, change := range changes {
			if err := client.ConfigureDevice(want.Device, wgtypes.Config{Peers: []wgtypes.PeerConfig{change}}); err != nil {
				return fmt.Errorf("set peer %s of lane %s: %w", change.PublicKey, want.Device, err)
			}
			action := "add"
			if change.UpdateOnly {
				action = "change"
			}
			r.did(action, "peer", fmt.Sprintf("%s on %s", change.PublicKey, want.Device))
		}
		return nil
	})
}

// withEndpoints puts the endpoint of a peer into its change, if there is one: a
// new peer with a keepalive sends its first handshake at once, and without an
// endpoint by then the next one comes 5 s later (REKEY_TIMEOUT).
func withEndpoints(changes, endpoints []wgtypes.PeerConfig) []wgtypes.PeerConfig {
	for _, e := range endpoints {
		i := slices.IndexFunc(changes, func(c wgtypes.PeerConfig) bool { return c.PublicKey == e.PublicKey })
		if i < 0 {
			changes = append(changes, e)
			continue
		}
		changes[i].Endpoint = e.Endpoint
	}
	return changes
}

// prunePeers takes away what is not planned.
func (r *run) prunePeers() {
	r.eachLane(func(client *wgctrl.Client, want plan.Lane, have *wgtypes.Device) error {
		standIn, err := wgtypes.GeneratePrivateKey()
		if err != nil {
			return fmt.Errorf("make key of the stand-in peer: %w", err)
		}
		removals := peerRemovals(want.Peers, have.Peers, standIn.PublicKey())
		for _, removal := range removals {
			if err := client.ConfigureDevice(want.Device, wgtypes.Config{Peers: []wgtypes.PeerConfig{removal}}); err != nil {
				return fmt.Errorf("remove from lane %s: %w", want.Device, err)
			}
			if removal.Remove && removal.PublicKey != standIn.PublicKey() {
				r.did("remove", "peer", fmt.Sprintf("%s on %s", removal.PublicKey, want.Device))
			}
			for _, network := range removal.AllowedIPs {
				r.did("remove", "allowed IP", fmt.Sprintf("%s on %s", &network, want.Device))
			}
		}
		return nil
	})
}

// eachLane calls f with every lane that exists, and with its state.
func (r *run) eachLane(f func(*wgctrl.Client, plan.Lane, *wgtypes.Device) error) {
	if len(r.plan.Lanes) == 0 {
		return
	}
	client, err := wgctrl.New()
	if !r.fail(err) {
		return
	}
	defer client.Close()
	for _, want := range r.plan.Lanes {
		link, err := findDevice(want.Device)
		if !r.fail(err) || link == nil {
			continue
		}
		have, err := client.Device(want.Device)
		if err != nil {
			r.fail(fmt.Errorf("read lane %s: %w", want.Device, err))
			continue
		}
		r.fail(f(client, want, have))
	}
}

// endpointChanges gives an endpoint to peers that have none. A peer that has one
// is left alone here; Maintain cares for those that fell silent.
func (r *run) endpointChanges(want plan.Lane, have *wgtypes.Device) []wgtypes.PeerConfig {
	present := map[wgtypes.Key]bool{}
	for _, peer := range have.Peers {
		present[peer.PublicKey] = peer.Endpoint != nil
	}
	resolver := newResolver(r.ctx)
	defer resolver.close()
	var changes []wgtypes.PeerConfig
	for _, peer := range want.Peers {
		if present[peer.PublicKey] {
			continue
		}
		endpoint, err := r.endpoints.first(want.Device, peer, resolver, time.Now())
		if err != nil {
			r.report.Warnings = append(r.report.Warnings, Warning{Peer: peer.PublicKey, Message: err.Error()})
		}
		if endpoint.IsValid() {
			changes = append(changes, wgtypes.PeerConfig{PublicKey: peer.PublicKey, UpdateOnly: true, Endpoint: net.UDPAddrFromAddrPort(endpoint)})
		}
	}
	return changes
}

// endpointOf returns where a peer is dialed; invalid if it is left to dial us.
func endpointOf(peer wgtypes.Peer) netip.AddrPort {
	if peer.Endpoint == nil {
		return netip.AddrPort{}
	}
	endpoint := peer.Endpoint.AddrPort()
	endpoint = netip.AddrPortFrom(endpoint.Addr().Unmap(), endpoint.Port())
	if endpoint == nowhere() {
		return netip.AddrPort{}
	}
	return endpoint
}

// handshakeOf returns the zero time if there was none: userspace WireGuard
// reports 1970.
func handshakeOf(peer wgtypes.Peer) time.Time {
	if peer.LastHandshakeTime.Unix() <= 0 {
		return time.Time{}
	}
	return peer.LastHandshakeTime
}

func toIPNets(prefixes []netip.Prefix) []net.IPNet {
	var networks []net.IPNet
	for _, prefix := range prefixes {
		networks = append(networks, *toIPNet(prefix.Masked()))
	}
	return networks
}

func toPrefixes(networks []net.IPNet) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, network := range networks {
		prefixes = append(prefixes, toPrefix(&network))
	}
	return prefixes
}

var errNoAddress = errors.New("no address found")
