package peering

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// claimStore is an API server with nothing but claims.
type claimStore struct {
	claims  []v1alpha1.PrefixClaim
	created int
}

func (s *claimStore) List(context.Context) ([]v1alpha1.PrefixClaim, error) {
	return slices.Clone(s.claims), nil
}

func (s *claimStore) Create(_ context.Context, c *v1alpha1.PrefixClaim) error {
	if slices.ContainsFunc(s.claims, func(o v1alpha1.PrefixClaim) bool { return o.Name == c.Name }) {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, c.Name)
	}
	s.created++
	c.ResourceVersion = strconv.Itoa(s.created)
	c.UID = types.UID(c.Name)
	s.claims = append(s.claims, *c)
	return nil
}

func (s *claimStore) Delete(_ context.Context, c *v1alpha1.PrefixClaim) error {
	s.claims = slices.DeleteFunc(s.claims, func(o v1alpha1.PrefixClaim) bool { return o.UID == c.UID })
	return nil
}

// peerRecord of a cluster with these gateways. Parsed records hold more; this
// is what the functions here look at.
func peerRecord(gateways ...int32) *identity.Record {
	r := &identity.Record{ClusterID: "b", PublicKey: bytes.Repeat([]byte{9}, 32)}
	for _, id := range gateways {
		r.Gateways = append(r.Gateways, identity.Gateway{
			ID: id, Endpoints: []string{fmt.Sprintf("172.31.2.%d", id)},
			Lanes: []identity.Lane{{Port: 51847, Key: bytes.Repeat([]byte{byte(id)}, 32)}},
		})
	}
	return r
}

func cidr(text string) netip.Prefix { return netip.MustParsePrefix(text) }

var (
	podNetwork  = channel.Network{Name: "pods", Kind: v1alpha1.NetworkPod, CIDR: netip.MustParsePrefix("10.244.0.0/16")}
	nodeNetwork = channel.Network{Name: "nodes", Kind: v1alpha1.NetworkNode, CIDR: netip.MustParsePrefix("100.64.0.0/20")}
)

// cluster is one end whose state goes from turn to turn through its Neighbor.
type cluster struct {
	t        *testing.T
	store    *claimStore
	existing *v1alpha1.NeighborSpec
}

func (c *cluster) turn(record *identity.Record, networks []channel.Network, own []int32, offers []channel.Offer) *v1alpha1.NeighborSpec {
	c.t.Helper()
	config := &v1alpha1.FabricConfig{Spec: v1alpha1.FabricConfigSpec{Pools: []v1alpha1.CIDR{"100.64.0.0/10"}, WirePools: []v1alpha1.CIDR{"240.0.0.0/5"}}}
	p := &prefixes{
		store: c.store, config: config, existing: c.existing, record: record, direct: true,
		avoid:     func(context.Context) ([]netip.Prefix, error) { return []netip.Prefix{cidr("100.64.0.0/20")}, nil },
		neighbors: func(context.Context) ([]v1alpha1.Neighbor, error) { return nil, nil },
	}
	views, wires, err := p.resolve(c.t.Context(), networks)
	require.NoError(c.t, err)
	spec, leftOut, err := buildNeighbor(neighborInput{
		Record: record, Existing: c.existing, Index: 7, Direct: true, Views: views, Wires: wires,
		OwnNetworks: []v1alpha1.OwnNetwork{{Name: "pods", CIDR: "10.244.0.0/16", Index: 1}, {Name: "nodes", CIDR: "100.64.0.0/20", Index: 2}},
		OwnGateways: own, Offers: offers,
	})
	require.NoError(c.t, err)
	require.Empty(c.t, leftOut)
	c.existing = &spec
	return &spec
}

// One gateway of the neighbor shares the views, the others have wire prefixes
// of their own, whatever own gateway they are used at.
func TestSeveralGateways(t *testing.T) {
	c := &cluster{t: t, store: &claimStore{}}
	spec := c.turn(peerRecord(1, 2), []channel.Network{podNetwork, nodeNetwork}, []int32{1, 3}, nil)
	wire := map[string]v1alpha1.CIDR{}
	for _, row := range spec.Rows {
		key := fmt.Sprintf("%d/%d", row.RemoteGateway, row.NetworkIndex)
		if known, ok := wire[key]; ok {
			require.Equal(t, known, row.Wire, "W names the remote gateway only")
		}
		wire[key] = row.Wire
	}
	require.Equal(t, map[string]v1alpha1.CIDR{
		"1/1": "100.65.0.0/16", "1/2": "100.64.16.0/20", "2/1": "240.0.0.0/16", "2/2": "240.1.0.0/20",
	}, wire)
	require.Len(t, spec.Rows, 8)
	require.Equal(t, spec, c.turn(peerRecord(2, 1), []channel.Network{nodeNetwork, podNetwork}, []int32{3, 1}, nil), "order means nothing")
	require.Len(t, c.store.claims, 4)

	// The sharing gateway goes; the other keeps its prefixes. After a teardown
	// the claims remember who shared.
	spec = c.turn(peerRecord(2), []channel.Network{podNetwork}, []int32{1}, nil)
	require.Equal(t, v1alpha1.CIDR("240.0.0.0/16"), spec.Rows[0].Wire)
	c.existing = nil
	spec = c.turn(peerRecord(1, 2), []channel.Network{podNetwork}, []int32{1}, nil)
	require.Equal(t, v1alpha1.CIDR("100.65.0.0/16"), spec.Rows[0].Wire)
	require.Equal(t, v1alpha1.CIDR("240.0.0.0/16"), spec.Rows[1].Wire)
	require.Len(t, c.store.claims, 4, "all found again")
}

func TestPeers(t *testing.T) {
	peers := peersOf(peerRecord(2, 1))
	require.Equal(t, []int32{1, 2}, []int32{peers[0].GatewayID, peers[1].GatewayID})
	require.Equal(t, identity.ChannelAddress(peerRecord().Identity(), 2).String(), peers[1].ChannelAddress)
	require.Equal(t, []string{"172.31.2.2"}, peers[1].Endpoints)
	require.EqualValues(t, 51847, peers[1].Lanes[0].Port)
}

// Theirs rows follow the offers as far as they fit; while none were told, those
// from an earlier life stay.
func TestTheirRows(t *testing.T) {
	offer := func(receiver, sender int32, network, original, wire string) channel.Offer {
		return channel.Offer{ReceiverGateway: receiver, SenderGateway: sender, Network: network, CIDR: cidr(original), Wire: cidr(wire)}
	}
	good := offer(1, 1, "pods", "10.244.0.0/16", "240.5.0.0/16")
	transit := good
	transit.Origin = "somebody"
	c := &cluster{t: t, store: &claimStore{}}
	spec := c.turn(peerRecord(1), nil, []int32{1}, []channel.Offer{
		good, transit,
		offer(9, 1, "nodes", "100.64.0.0/20", "240.6.0.0/20"),
		offer(1, 9, "nodes", "100.64.0.0/20", "240.6.0.0/20"),
		offer(1, 1, "gone", "10.9.0.0/16", "240.7.0.0/16"),
	})
	want := []v1alpha1.Row{{Side: v1alpha1.RowTheirs, OwnGateway: 1, RemoteGateway: 1, NetworkIndex: 1, Local: "10.244.0.0/16", Wire: "240.5.0.0/16"}}
	require.Equal(t, want, spec.Rows)
	require.Equal(t, want, c.turn(peerRecord(1), nil, []int32{1}, nil).Rows, "nothing told: nothing withdrawn")
	require.Empty(t, c.turn(peerRecord(1), nil, []int32{2}, nil).Rows, "but not for a gateway that we do not have")
	c.existing = &v1alpha1.NeighborSpec{Rows: want, ClusterIndex: 7}
	require.Empty(t, c.turn(peerRecord(1), nil, []int32{1}, []channel.Offer{}).Rows, "told that there are none")
}

// Property: while networks and gateways come and go, views and wire prefixes
// never move, never overlap, and every row is a bijection of equal lengths.
func TestPrefixesAreStable(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	all := []channel.Network{podNetwork, nodeNetwork,
		{Name: "more", Kind: v1alpha1.NetworkPod, CIDR: cidr("10.0.0.0/20")}, {Name: "more", Kind: v1alpha1.NetworkPod, CIDR: cidr("10.0.16.0/24")}}
	c := &cluster{t: t, store: &claimStore{}}
	views := map[string]v1alpha1.CIDR{}
	for range 300 {
		var networks []channel.Network
		for _, n := range all {
			if random.IntN(3) > 0 {
				networks = append(networks, n)
			}
		}
		var gateways []int32
		for id := int32(1); id <= 3; id++ {
			if random.IntN(3) > 0 {
				gateways = append(gateways, id)
			}
		}
		if random.IntN(10) == 0 {
			c.existing = nil // unpeered and peered again
		}
		spec := c.turn(peerRecord(gateways...), networks, []int32{1}, nil)
		indexes := map[int32]bool{}
		for _, n := range spec.Networks {
			key := n.Name + string(n.Original)
			if known, ok := views[key]; ok {
				require.Equal(t, known, n.Local)
			}
			views[key] = n.Local
			require.False(t, indexes[n.Index])
			indexes[n.Index] = true
		}
		for i, row := range spec.Rows {
			require.Equal(t, cidr(string(row.Local)).Bits(), cidr(string(row.Wire)).Bits())
			for _, other := range spec.Rows[:i] {
				require.False(t, cidr(string(row.Wire)).Overlaps(cidr(string(other.Wire))), "%v and %v", row, other)
			}
		}
		require.Len(t, spec.Rows, len(gateways)*len(networks))
	}
}

func TestClusterIndexes(t *testing.T) {
	var neighbors []v1alpha1.Neighbor
	for index := int32(1); index <= 255; index++ {
		if index != 4 {
			neighbors = append(neighbors, v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{ClusterIndex: index}})
		}
	}
	index, err := freeClusterIndex(neighbors)
	require.NoError(t, err)
	require.EqualValues(t, 4, index)
	_, err = freeClusterIndex(append(neighbors, v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{ClusterIndex: 4}}))
	require.ErrorContains(t, err, "255 neighbors")
}

func TestNextAnnounced(t *testing.T) {
	one, two := channel.Offer{Network: "one"}, channel.Offer{Network: "two"}
	require.Nil(t, nextAnnounced([]channel.Offer{one}, nil, false), "not in place, nothing known: the peer keeps what it has")
	require.Equal(t, []channel.Offer{one}, nextAnnounced([]channel.Offer{one}, nil, true))
	require.Equal(t, []channel.Offer{one}, nextAnnounced([]channel.Offer{one, two}, []channel.Offer{one}, false), "two is not in place yet")
	require.Equal(t, []channel.Offer{}, nextAnnounced([]channel.Offer{two}, []channel.Offer{one}, false), "one has no row any more")
}
