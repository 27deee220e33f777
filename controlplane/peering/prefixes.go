package peering

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/ipam"
)

const (
	// claimsPerTurn bounds the new claims of one peer in one turn, so that the
	// others get theirs; claimPause is the time until the next turn.
	claimsPerTurn = 16
	claimPause    = 200 * time.Millisecond
	// keptViews and keptWires bound the claims that a peer holds: four times what
	// it can use at once. Beyond it loses its own oldest ones, not those of others.
	keptViews = 4 * channel.MaxNetworks
	keptWires = 4 * channel.MaxNetworks * identity.MaxGateways
)

// errMoreLater says that a turn has made as many claims as it may.
var errMoreLater = errors.New("more prefixes are claimed in a moment")

// network names one CIDR of a cluster.
type network struct {
	cluster    v1alpha1.Identity
	name, cidr string
}

// prefixes finds the view of each network and the wire prefix of each network
// and gateway. What the Neighbor has already it keeps, without a look at the
// claims; only something new is claimed.
type prefixes struct {
	store    ipam.Store
	config   *v1alpha1.FabricConfig
	existing *v1alpha1.NeighborSpec
	record   *identity.Record
	// direct: tunnels lead to the gateways of the record.
	direct bool
	// behind are the clusters that are reached through it.
	behind []origin
	// avoid is computed when the first claim is needed, neighbors (uncached) read
	// when the pools run dry.
	avoid     func(context.Context) ([]netip.Prefix, error)
	neighbors func(context.Context) ([]v1alpha1.Neighbor, error)
	// wanted are the networks of this turn.
	wanted map[network]bool
	// claims is how many this turn has asked for.
	claims int
}

// resolve returns the views (with indexes) and wire prefixes of networks. The
// error names the first network that found no prefix; the others have theirs.
func (p *prefixes) resolve(ctx context.Context, networks []channel.Network) ([]v1alpha1.ViewNetwork, map[wireKey]netip.Prefix, error) {
	var views []v1alpha1.ViewNetwork
	var problem error
	p.wanted = map[network]bool{}
	for _, n := range networks {
		p.wanted[network{p.record.Identity(), n.Name, n.CIDR.String()}] = true
	}
	for _, o := range p.behind {
		for _, view := range o.Networks {
			p.wanted[network{o.Identity, view.Name, string(view.Original)}] = true
		}
	}
	for _, n := range networks {
		local, err := p.view(ctx, n)
		if err != nil {
			problem = firstOf(problem, fmt.Errorf("network %s (%s) gets no local view: %w", n.Name, n.CIDR, err))
			continue
		}
		views = append(views, v1alpha1.ViewNetwork{
			Name: n.Name, Kind: n.Kind, Original: v1alpha1.CIDR(n.CIDR.String()), Local: v1alpha1.CIDR(local.String()),
		})
	}
	views = assignViewIndexes(views, p.existing)
	wires, err := p.wires(ctx, views)
	return views, wires, firstOf(problem, err)
}

func (p *prefixes) view(ctx context.Context, n channel.Network) (netip.Prefix, error) {
	if p.existing != nil {
		for _, known := range p.existing.Networks {
			if known.Name == n.Name && string(known.Original) == n.CIDR.String() {
				return netip.ParsePrefix(string(known.Local))
			}
		}
	}
	return p.claim(ctx, p.config.Spec.Pools, v1alpha1.PrefixClaimSpec{
		Purpose: v1alpha1.ClaimView, Identity: string(p.record.Identity()), Network: n.Name, CIDR: n.CIDR.String(),
	}, n.CIDR.Bits())
}

func (p *prefixes) wires(ctx context.Context, views []v1alpha1.ViewNetwork) (map[wireKey]netip.Prefix, error) {
	wires := map[wireKey]netip.Prefix{}
	if !p.direct || len(views) == 0 {
		return wires, nil // nothing goes through a cluster of which nothing is known
	}
	known := p.knownWires()
	shared, err := p.shared(ctx)
	if err != nil {
		return wires, err
	}
	var problem error
	find := func(gateway int32, o origin, of string) {
		for _, view := range o.Networks {
			key := wireKey{gateway, o.Index, view.Original}
			if wire, ok := known[key]; ok {
				wires[key] = wire // whatever becomes of the others
				continue
			}
			wire, err := p.newWire(ctx, gateway == shared, gateway, o, view)
			if err != nil {
				problem = firstOf(problem, fmt.Errorf("network %s (%s)%s gets no wire prefix for gateway %d: %w", view.Name, view.Original, of, gateway, err))
				continue
			}
			wires[key] = wire
		}
	}
	own := origin{Identity: p.record.Identity(), Networks: views}
	for _, g := range p.record.Gateways {
		find(g.ID, own, "")
	}
	for _, o := range p.behind {
		for _, g := range p.record.Gateways {
			find(g.ID, o, " of "+o.Name)
		}
	}
	return wires, problem
}

// newWire claims a wire prefix. Only the neighbor's own networks (index 0) share
// it with a view: that of a cluster behind it may be shared on a direct link.
func (p *prefixes) newWire(ctx context.Context, shared bool, gateway int32, o origin, view v1alpha1.ViewNetwork) (netip.Prefix, error) {
	if shared && o.Index == 0 {
		return netip.ParsePrefix(string(view.Local))
	}
	original, err := netip.ParsePrefix(string(view.Original))
	if err != nil {
		return netip.Prefix{}, err
	}
	return p.claim(ctx, p.config.Spec.WirePools, v1alpha1.PrefixClaimSpec{
		Purpose: v1alpha1.ClaimWire, Identity: string(o.Identity), Network: view.Name, CIDR: string(view.Original),
		Via: string(p.record.Identity()), GatewayID: gateway,
	}, original.Bits())
}

// knownWires are those in our rows, of networks that still have the same view.
func (p *prefixes) knownWires() map[wireKey]netip.Prefix {
	known := map[wireKey]netip.Prefix{}
	if p.existing == nil {
		return known
	}
	type key struct {
		origin, network int32
		local           v1alpha1.CIDR
	}
	originals := map[key]v1alpha1.CIDR{}
	note := func(index int32, views []v1alpha1.ViewNetwork) {
		for _, n := range views {
			originals[key{index, n.Index, n.Local}] = n.Original
		}
	}
	note(0, p.existing.Networks)
	for _, o := range p.behind {
		note(o.Index, o.Networks)
	}
	for _, row := range p.existing.Rows {
		if row.Side != v1alpha1.RowOurs {
			continue
		}
		index := row.OriginIndex
		if index == p.existing.ClusterIndex {
			index = 0
		}
		original, ok := originals[key{index, row.NetworkIndex, row.Local}]
		if wire, err := netip.ParsePrefix(string(row.Wire)); err == nil && ok {
			known[wireKey{row.RemoteGateway, index, original}] = wire
		}
	}
	return known
}

// shared returns the gateway whose wire prefixes are the views. The claims are
// looked at only when no row tells.
func (p *prefixes) shared(ctx context.Context) (int32, error) {
	if id := sharedByRows(p.existing, p.record); id != 0 {
		return id, nil
	}
	claims, err := p.store.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("list prefix claims: %w", err)
	}
	return sharedByClaims(p.record, claims), nil
}

func (p *prefixes) claim(ctx context.Context, pools []v1alpha1.CIDR, key v1alpha1.PrefixClaimSpec, bits int) (netip.Prefix, error) {
	if p.claims++; p.claims > claimsPerTurn {
		return netip.Prefix{}, errMoreLater
	}
	avoid, err := p.avoid(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	kept := keptViews
	if key.Purpose == v1alpha1.ClaimWire {
		kept = keptWires
	}
	reclaimable := p.reclaimable(ctx, key.Purpose)
	return ipam.Claim(ctx, p.store, ipam.Request{
		Key: key, Bits: bits, Pools: ipam.ParsePrefixes(pools), Avoid: avoid,
		Reclaimable: reclaimable,
		Idle:        true, // what the Neighbor has is not claimed again
		Own:         func(c *v1alpha1.PrefixClaim) bool { return c.Spec.Identity == key.Identity && reclaimable(c) },
		Kept:        kept,
	})
}

// reclaimable tells which claims may go when the pools run dry: those of the
// same purpose that no Neighbor uses and this turn does not want.
func (p *prefixes) reclaimable(ctx context.Context, purpose v1alpha1.ClaimPurpose) func(*v1alpha1.PrefixClaim) bool {
	used := sync.OnceValues(func() (map[v1alpha1.CIDR]bool, error) {
		neighbors, err := p.neighbors(ctx)
		return prefixesInUse(neighbors), err
	})
	return func(c *v1alpha1.PrefixClaim) bool {
		inUse, err := used()
		wanted := p.wanted[network{v1alpha1.Identity(c.Spec.Identity), c.Spec.Network, c.Spec.CIDR}]
		return err == nil && c.Spec.Purpose == purpose && !wanted && !inUse[c.Spec.Prefix]
	}
}

func prefixesInUse(neighbors []v1alpha1.Neighbor) map[v1alpha1.CIDR]bool {
	used := map[v1alpha1.CIDR]bool{}
	for i := range neighbors {
		for _, n := range neighbors[i].Spec.Networks {
			used[n.Local] = true
		}
		for _, row := range neighbors[i].Spec.Rows {
			used[row.Wire] = true
		}
	}
	return used
}

// networksOf returns the networks of views, as their cluster exports them.
func networksOf(views []v1alpha1.ViewNetwork) []channel.Network {
	var networks []channel.Network
	for _, n := range views {
		if cidr, err := netip.ParsePrefix(string(n.Original)); err == nil {
			networks = append(networks, channel.Network{Name: n.Name, Kind: n.Kind, CIDR: cidr})
		}
	}
	return networks
}

// ownNetworks returns what we tell a peer of our networks, nil while they are
// not all known: without the node network the peer could not probe.
func ownNetworks(config *v1alpha1.FabricConfig) []channel.Network {
	var networks []channel.Network
	complete := false
	for _, n := range config.Status.Networks {
		cidr, err := netip.ParsePrefix(string(n.CIDR))
		if err != nil || len(networks) == channel.MaxNetworks {
			continue
		}
		complete = complete || n.Kind == v1alpha1.NetworkNode
		networks = append(networks, channel.Network{Name: n.Name, Kind: n.Kind, CIDR: cidr})
	}
	if !complete {
		return nil
	}
	return networks
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
