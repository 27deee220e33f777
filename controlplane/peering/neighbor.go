package peering

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

const (
	maxClusterIndex = 255
	maxNetworkIndex = 255
	maxRows         = 4096 // NeighborSpec.rows
)

// wireKey names what a wire prefix is for: a network of the neighbor itself
// (origin 0) or of a cluster behind it, as it enters from one of its gateways.
type wireKey struct {
	Gateway int32
	Origin  int32
	CIDR    v1alpha1.CIDR
}

// neighborInput of buildNeighbor.
type neighborInput struct {
	Record   *identity.Record
	Existing *v1alpha1.NeighborSpec // nil before the first time
	Index    int32
	// Direct: there are tunnels to it.
	Direct bool
	Pods   v1alpha1.PodAccess
	Paths  v1alpha1.PathPolicy
	// Views of the neighbor's networks, and the wire prefixes that we chose.
	Views []v1alpha1.ViewNetwork
	Wires map[wireKey]netip.Prefix
	// Behind are the clusters that we reach through it, Forwarded those that it
	// reaches through us; both by index.
	Behind, Forwarded []origin
	// Own networks and gateway ids of this cluster.
	OwnNetworks []v1alpha1.OwnNetwork
	OwnGateways []int32
	// Offers of the peer; nil while it has not told any since we started: its
	// rows then stay as they are.
	Offers []channel.Offer
	MTU    int32 // 0: not told
}

// gateways of the neighbor that tunnels lead to.
func (in *neighborInput) gateways() []identity.Gateway {
	if !in.Direct {
		return nil
	}
	return in.Record.Gateways
}

// buildNeighbor returns what the agents need to know. It is deterministic, so
// that equal input makes no new generation. Clusters behind the neighbor (or
// behind us) whose rows do not fit are left out, and named.
func buildNeighbor(in neighborInput) (v1alpha1.NeighborSpec, []string, error) {
	spec := v1alpha1.NeighborSpec{
		ClusterID:    in.Record.ClusterID,
		Identity:     in.Record.Identity(),
		ClusterIndex: in.Index,
		Access:       v1alpha1.NeighborAccess{Pods: in.Pods},
		Paths:        in.Paths,
		Networks:     in.Views,
		MTU:          in.MTU,
		Transit:      transitOf(in.Forwarded),
	}
	if in.Direct {
		spec.Peers = peersOf(in.Record)
	}
	if spec.Access.Pods == "" {
		spec.Access.Pods = v1alpha1.PodAccessNone
	}
	if spec.Paths == "" {
		spec.Paths = v1alpha1.PathAny
	}
	own, others := splitRows(append(ourRows(&in), theirRows(&in)...), in.Index)
	if len(own) > maxRows {
		return spec, nil, fmt.Errorf("%d rows are needed for %d networks over %d gateways here and %d there; at most %d are possible: use fewer gateways or networks",
			len(own), len(in.Views), len(in.OwnGateways), len(in.Record.Gateways), maxRows)
	}
	var leftOut []string
	spec.Rows = own
	for _, index := range slices.Sorted(maps.Keys(others)) {
		if len(spec.Rows)+len(others[index]) > maxRows {
			leftOut = append(leftOut, nameOf(index, in.Behind, in.Forwarded))
			continue
		}
		spec.Rows = append(spec.Rows, others[index]...)
	}
	slices.SortFunc(spec.Rows, compareRows)
	return spec, leftOut, nil
}

// splitRows parts the rows of this cluster's and the neighbor's own networks from
// those of others, by their index.
func splitRows(rows []v1alpha1.Row, index int32) ([]v1alpha1.Row, map[int32][]v1alpha1.Row) {
	var own []v1alpha1.Row
	others := map[int32][]v1alpha1.Row{}
	for _, row := range rows {
		if row.OriginIndex == 0 || row.OriginIndex == index {
			own = append(own, row)
		} else {
			others[row.OriginIndex] = append(others[row.OriginIndex], row)
		}
	}
	return own, others
}

func nameOf(index int32, lists ...[]origin) string {
	for _, list := range lists {
		for _, o := range list {
			if o.Index == index {
				return o.Name
			}
		}
	}
	return ""
}

func peersOf(record *identity.Record) []v1alpha1.NeighborPeer {
	var peers []v1alpha1.NeighborPeer
	for _, g := range record.Gateways {
		peer := v1alpha1.NeighborPeer{
			GatewayID:      g.ID,
			ChannelAddress: identity.ChannelAddress(record.Identity(), g.ID).String(),
			Endpoints:      g.Endpoints,
		}
		for _, lane := range g.Lanes {
			peer.Lanes = append(peer.Lanes, v1alpha1.PeerLane{Port: int32(lane.Port), PublicKey: base64.StdEncoding.EncodeToString(lane.Key)})
		}
		peers = append(peers, peer)
	}
	slices.SortFunc(peers, func(a, b v1alpha1.NeighborPeer) int { return cmp.Compare(a.GatewayID, b.GatewayID) })
	return peers
}

func compareRows(a, b v1alpha1.Row) int {
	return cmp.Or(
		cmp.Compare(a.Side, b.Side), cmp.Compare(a.OwnGateway, b.OwnGateway), cmp.Compare(a.RemoteGateway, b.RemoteGateway),
		cmp.Compare(a.OriginIndex, b.OriginIndex), cmp.Compare(a.NetworkIndex, b.NetworkIndex), cmp.Compare(a.Wire, b.Wire),
	)
}

// assignViewIndexes numbers the networks of a neighbor: one that has an index
// keeps it, and one that was in use until now is not given to another.
func assignViewIndexes(views []v1alpha1.ViewNetwork, existing *v1alpha1.NeighborSpec) []v1alpha1.ViewNetwork {
	taken := map[int32]bool{}
	held := map[string]int32{}
	if existing != nil {
		for _, n := range existing.Networks {
			taken[n.Index] = true
			held[n.Name+" "+string(n.Original)] = n.Index
		}
	}
	out := slices.Clone(views)
	for i := range out {
		out[i].Index = held[out[i].Name+" "+string(out[i].Original)]
		for index := int32(1); out[i].Index == 0 && index <= maxNetworkIndex; index++ {
			if !taken[index] {
				taken[index], out[i].Index = true, index
			}
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.ViewNetwork) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// freeClusterIndex returns the lowest index that no neighbor has, and no row or
// policy of another one still names.
func freeClusterIndex(neighbors []v1alpha1.Neighbor) (int32, error) {
	taken := map[int32]bool{}
	for i := range neighbors {
		spec := &neighbors[i].Spec
		taken[spec.ClusterIndex] = true
		for _, index := range spec.Transit {
			taken[index] = true
		}
		for _, row := range spec.Rows {
			taken[row.OriginIndex] = true
		}
	}
	for index := int32(1); index <= maxClusterIndex; index++ {
		if !taken[index] {
			return index, nil
		}
	}
	return 0, fmt.Errorf("this cluster has %d neighbors already, the most that the data plane can number", maxClusterIndex)
}

// sharedByRows returns the one gateway of the neighbor whose wire prefixes are
// the views themselves, which saves a rewrite. It is chosen once, and the rows
// remember it. 0: none.
func sharedByRows(existing *v1alpha1.NeighborSpec, record *identity.Record) int32 {
	if existing == nil {
		return 0
	}
	ids := gatewayIDs(record)
	for _, row := range existing.Rows {
		if row.Side == v1alpha1.RowOurs && row.OriginIndex == existing.ClusterIndex && row.Wire == row.Local && slices.Contains(ids, row.RemoteGateway) {
			return row.RemoteGateway
		}
	}
	return 0
}

// sharedByClaims chooses that gateway when no row tells: the first without wire
// prefixes of its own, so that a re-peering finds the one from before.
func sharedByClaims(record *identity.Record, claims []v1alpha1.PrefixClaim) int32 {
	neighbor := string(record.Identity())
	for _, id := range gatewayIDs(record) {
		separate := slices.ContainsFunc(claims, func(c v1alpha1.PrefixClaim) bool {
			return c.Spec.Purpose == v1alpha1.ClaimWire && c.Spec.Via == neighbor && c.Spec.Identity == neighbor && c.Spec.GatewayID == id
		})
		if !separate {
			return id
		}
	}
	return 0
}

func gatewayIDs(record *identity.Record) []int32 {
	ids := make([]int32, 0, len(record.Gateways))
	for _, g := range record.Gateways {
		ids = append(ids, g.ID)
	}
	slices.Sort(ids)
	return ids
}
