package peering

import (
	"cmp"
	"encoding/base64"
	"fmt"
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

// wireKey names what a wire prefix is for: a network of the neighbor as it
// enters from one of its gateways.
type wireKey struct {
	Gateway int32
	CIDR    v1alpha1.CIDR
}

// neighborInput of buildNeighbor.
type neighborInput struct {
	Record   *identity.Record
	Existing *v1alpha1.NeighborSpec // nil before the first time
	Index    int32
	Access   v1alpha1.AccessSpec
	// Views of the neighbor's networks, and the wire prefixes that we chose.
	Views []v1alpha1.ViewNetwork
	Wires map[wireKey]netip.Prefix
	// Own networks and gateway ids of this cluster.
	OwnNetworks []v1alpha1.OwnNetwork
	OwnGateways []int32
	// Offers of the peer; nil while it has not told any since we started: its
	// rows then stay as they are.
	Offers []channel.Offer
	MTU    int32 // 0: not told
}

// buildNeighbor returns what the agents need to know. It is deterministic, so
// that equal input makes no new generation.
func buildNeighbor(in neighborInput) (v1alpha1.NeighborSpec, error) {
	spec := v1alpha1.NeighborSpec{
		ClusterID:    in.Record.ClusterID,
		Identity:     in.Record.Identity(),
		ClusterIndex: in.Index,
		Access:       v1alpha1.NeighborAccess{Pods: in.Access.Pods},
		Paths:        v1alpha1.PathAny,
		Peers:        peersOf(in.Record),
		Networks:     in.Views,
		MTU:          in.MTU,
	}
	if spec.Access.Pods == "" {
		spec.Access.Pods = v1alpha1.PodAccessNone
	}
	if in.MTU == 0 && in.Existing != nil {
		spec.MTU = in.Existing.MTU
	}
	spec.Rows = append(ourRows(in), theirRows(in)...)
	slices.SortFunc(spec.Rows, compareRows)
	if len(spec.Rows) > maxRows {
		return spec, fmt.Errorf("%d rows are needed for %d networks over %d gateways here and %d there; at most %d are possible: use fewer gateways or networks",
			len(spec.Rows), len(in.Views), len(in.OwnGateways), len(in.Record.Gateways), maxRows)
	}
	return spec, nil
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

// ourRows map each view to the wire prefix that we chose, over every link.
func ourRows(in neighborInput) []v1alpha1.Row {
	var rows []v1alpha1.Row
	for _, own := range in.OwnGateways {
		for _, remote := range in.Record.Gateways {
			for _, view := range in.Views {
				wire, ok := in.Wires[wireKey{remote.ID, view.Original}]
				if !ok {
					continue
				}
				rows = append(rows, v1alpha1.Row{
					Side: v1alpha1.RowOurs, OwnGateway: own, RemoteGateway: remote.ID,
					OriginIndex: in.Index, NetworkIndex: view.Index,
					Local: view.Local, Wire: v1alpha1.CIDR(wire.String()),
				})
			}
		}
	}
	return rows
}

// theirRows map our networks to the wire prefixes that the peer chose. An offer
// for what we do not (or no longer) have is passed over: the peer may be behind.
func theirRows(in neighborInput) []v1alpha1.Row {
	own := map[string]v1alpha1.OwnNetwork{}
	for _, n := range in.OwnNetworks {
		own[n.Name+" "+string(n.CIDR)] = n
	}
	remote := map[int32]bool{}
	for _, g := range in.Record.Gateways {
		remote[g.ID] = true
	}
	var rows []v1alpha1.Row
	for _, o := range in.Offers {
		n, known := own[o.Network+" "+o.CIDR.String()]
		if o.Origin != "" || !known || !remote[o.SenderGateway] || !slices.Contains(in.OwnGateways, o.ReceiverGateway) {
			continue
		}
		rows = append(rows, v1alpha1.Row{
			Side: v1alpha1.RowTheirs, OwnGateway: o.ReceiverGateway, RemoteGateway: o.SenderGateway,
			NetworkIndex: n.Index, Local: n.CIDR, Wire: v1alpha1.CIDR(o.Wire.String()),
		})
	}
	if in.Offers == nil && in.Existing != nil {
		return keptRows(in, remote)
	}
	return rows
}

// keptRows are the peer's rows as we know them from an earlier life.
func keptRows(in neighborInput, remote map[int32]bool) []v1alpha1.Row {
	var rows []v1alpha1.Row
	for _, row := range in.Existing.Rows {
		stillOwn := slices.ContainsFunc(in.OwnNetworks, func(n v1alpha1.OwnNetwork) bool {
			return n.Index == row.NetworkIndex && n.CIDR == row.Local
		})
		if row.Side == v1alpha1.RowTheirs && stillOwn && remote[row.RemoteGateway] && slices.Contains(in.OwnGateways, row.OwnGateway) {
			rows = append(rows, row)
		}
	}
	return rows
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

// freeClusterIndex returns the lowest index that no neighbor has.
func freeClusterIndex(neighbors []v1alpha1.Neighbor) (int32, error) {
	taken := map[int32]bool{}
	for i := range neighbors {
		taken[neighbors[i].Spec.ClusterIndex] = true
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
