package plan

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// keepalive holds the mapping of a NAT in between open: 25 s is WireGuard's own
// advice.
const keepalive = 25 * time.Second

// peer is an accepted gateway of a neighbor.
type peer struct {
	gateway uint8
	link    uint16
	Peer
	// Wire addresses of host 0 of this cluster's node network and, by cluster
	// index, of others'; missing until the rows are there.
	probeSource       netip.Addr
	probeDestinations map[uint8]netip.Addr
}

// neighborPeers accepts the neighbor's gateways. keys holds whose WireGuard
// keys are known already.
func (b *builder) neighborPeers(n *neighbor, keys map[[32]byte]string) {
	peers := slices.Clone(n.object.Spec.Peers)
	slices.SortStableFunc(peers, func(x, y v1alpha1.NeighborPeer) int { return cmp.Compare(x.GatewayID, y.GatewayID) })
	for i := range peers {
		object := &peers[i]
		p, err := newPeer(n.object.Spec.Identity, object)
		switch {
		case err != nil:
		case len(n.peers) > 0 && n.peers[len(n.peers)-1].gateway == p.gateway:
			err = errors.New("its id is listed twice")
		case keys[p.PublicKey] != "":
			err = fmt.Errorf("its WireGuard key is also a key of neighbor %s", keys[p.PublicKey])
		}
		if err != nil {
			b.problem(n.object.Name, "gateway %d is left out: %v", object.GatewayID, err)
			continue
		}
		keys[p.PublicKey] = n.object.Name
		p.Endpoints = b.endpoints(n, object)
		if len(p.Endpoints) > 0 {
			p.Keepalive = keepalive
			p.Yields = b.in.Config.Spec.Gateways.Exposure != v1alpha1.ExposureNone && b.in.Config.Status.Identity > n.object.Spec.Identity
		}
		n.peers = append(n.peers, p)
	}
}

func newPeer(id v1alpha1.Identity, object *v1alpha1.NeighborPeer) (*peer, error) {
	if err := checkIndex(object.GatewayID); err != nil {
		return nil, errors.New("its id is not within 1 to 255")
	}
	if len(object.Lanes) == 0 {
		return nil, errors.New("it has no lane")
	}
	lane := &object.Lanes[0]
	key, err := base64.StdEncoding.DecodeString(lane.PublicKey)
	if err != nil || len(key) != 32 || [32]byte(key) == [32]byte{} {
		return nil, errors.New("its first lane has no WireGuard public key (32 bytes in base64)")
	}
	if lane.Port < 1 || lane.Port > 65535 {
		return nil, fmt.Errorf("its first lane has UDP port %d", lane.Port)
	}
	channel := identity.ChannelAddress(id, object.GatewayID)
	if object.ChannelAddress != channel.String() {
		return nil, fmt.Errorf("its channel address %.50q does not follow from its identity, which gives %s", object.ChannelAddress, channel)
	}
	p := &peer{gateway: uint8(object.GatewayID), probeDestinations: map[uint8]netip.Addr{}}
	p.PublicKey = [32]byte(key)
	p.ChannelAddress = channel
	p.AllowedIPs = []netip.Prefix{netip.PrefixFrom(channel, 128)}
	return p, nil
}

func (b *builder) endpoints(n *neighbor, object *v1alpha1.NeighborPeer) []string {
	var out []string
	for _, e := range object.Endpoints {
		if err := identity.ValidateEndpoint(e); err != nil {
			b.problem(n.object.Name, "gateway %d: %v", object.GatewayID, err)
			continue
		}
		out = append(out, net.JoinHostPort(e, strconv.Itoa(int(object.Lanes[0].Port))))
	}
	return out
}
