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
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// keepalive holds the mapping of a NAT in between open: 25 s is WireGuard's own
// advice.
const keepalive = 25 * time.Second

// minMTU is the least that every IPv4 host must take in (RFC 791, 3.1).
const minMTU = 576

// neighbor is a Neighbor whose identity and index have been accepted.
type neighbor struct {
	object  *v1alpha1.Neighbor
	cluster uint8
	views   []network
	peers   []*peer
}

// peer is an accepted gateway of a neighbor.
type peer struct {
	gateway uint8
	link    uint16
	Peer
	// Wire addresses of host 0 of the node networks; invalid until the rows are
	// there.
	probeSource, probeDestination netip.Addr
}

// neighbors accepts what is sound of each Neighbor: views, then peers.
func (b *builder) neighbors() {
	indexes, identities := map[int32]string{}, map[v1alpha1.Identity]string{}
	keys := map[[32]byte]string{}
	for i := range b.in.Neighbors {
		object := &b.in.Neighbors[i]
		if object.DeletionTimestamp != nil {
			continue
		}
		spec := &object.Spec
		switch {
		case checkIndex(spec.ClusterIndex) != nil || indexes[spec.ClusterIndex] != "":
			b.problem(object.Name, "it is left out: its cluster index %d is not unique or not within 1 to 255", spec.ClusterIndex)
			continue
		case spec.Identity == b.in.Config.Status.Identity || identities[spec.Identity] != "":
			b.problem(object.Name, "it is left out: its identity %.60s is this cluster's own or another neighbor's", spec.Identity)
			continue
		}
		indexes[spec.ClusterIndex], identities[spec.Identity] = object.Name, object.Name
		n := &neighbor{object: object, cluster: uint8(spec.ClusterIndex)}
		b.neighborViews(n)
		if b.isGateway() {
			b.neighborPeers(n, keys)
		}
		b.accepted = append(b.accepted, n)
	}
}

func (b *builder) neighborViews(n *neighbor) {
	views := slices.Clone(n.object.Spec.Networks)
	slices.SortFunc(views, func(x, y v1alpha1.ViewNetwork) int { return cmp.Compare(x.Index, y.Index) })
	for _, v := range views {
		p, ok, err := parseNetwork(v.Local)
		if err == nil && !ok {
			continue
		}
		id := networkID{n.cluster, uint8(v.Index)}
		if err == nil {
			err = b.checkView(v, id, p)
		}
		if err == nil {
			err = b.views.add(p, "neighbor "+n.object.Name)
		}
		if err != nil {
			b.problem(n.object.Name, "network %.30s is left out: %v", v.Name, err)
			continue
		}
		b.networks[id] = network{id, v.Kind, p}
		n.views = append(n.views, b.networks[id])
	}
}

func (b *builder) checkView(v v1alpha1.ViewNetwork, id networkID, p netip.Prefix) error {
	if err := checkIndex(v.Index); err != nil {
		return err
	}
	if _, ok := b.networks[id]; ok {
		return fmt.Errorf("its index %d is not unique", v.Index)
	}
	for i := range b.nodes {
		if p.Contains(b.nodes[i].underlay) {
			return fmt.Errorf("%s contains the underlay address of node %s", p, b.nodes[i].object.Name)
		}
	}
	return nil
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
	p := &peer{gateway: uint8(object.GatewayID)}
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

// localView enters what this node calls every known network: the first table
// of each direction, and a route per foreign network.
func (b *builder) localView() {
	for _, n := range b.networks {
		entry := n.entry()
		insert(b.plan.Maps.View4, b.plan.Maps.View4Long, &b.plan.Maps.Lengths.View4, n.local, entry, bpfgen.BorderWeftNet{Flags: bpfgen.NetLonger})
	}
	for _, n := range b.accepted {
		mtu := b.clusterMTU(n)
		b.plan.Maps.Clusters[uint32(n.cluster)] = bpfgen.BorderWeftCluster{Mtu: uint32(mtu)}
		b.plan.Names.Clusters = append(b.plan.Names.Clusters, ClusterName{Neighbor: n.object.Name, Index: int32(n.cluster)})
		for _, v := range n.views {
			b.plan.Routing.Routes = append(b.plan.Routing.Routes, Route{Destination: v.local, Source: b.plan.Overlay.FabricAddress, MTU: mtu})
		}
	}
	slices.SortFunc(b.plan.Routing.Routes, func(x, y Route) int { return x.Destination.Compare(y.Destination) })
}

func (b *builder) clusterMTU(n *neighbor) int {
	mtu := b.pathMTU()
	switch theirs := int(n.object.Spec.MTU); {
	case theirs == 0:
	case theirs < minMTU:
		b.problem(n.object.Name, "its MTU %d is ignored: it is below %d", theirs, minMTU)
	default:
		mtu = min(mtu, theirs)
	}
	return mtu
}

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
