package peering

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// A peer that exports other networks each time fills neither the API server nor
// the pools, and takes no claim of anybody else.
func TestChangingNetworksHoldBoundedClaims(t *testing.T) {
	store := &claimStore{}
	other := v1alpha1.PrefixClaimSpec{Purpose: v1alpha1.ClaimView, Identity: "other", Network: "pods", CIDR: "10.244.0.0/16", Prefix: "100.127.0.0/16"}
	require.NoError(t, store.Create(t.Context(), &v1alpha1.PrefixClaim{Spec: other}))
	record := peerRecord(1)
	for round := range 40 {
		var networks []channel.Network
		for i := range channel.MaxNetworks {
			networks = append(networks, channel.Network{Name: "pods", Kind: v1alpha1.NetworkPod, CIDR: cidr(fmt.Sprintf("10.%d.%d.0/24", round, i))})
		}
		views, _, err := newPrefixes(store, record, nil).resolve(t.Context(), networks)
		require.NoError(t, err)
		require.Len(t, views, channel.MaxNetworks)
		require.LessOrEqual(t, len(store.claims), keptViews+channel.MaxNetworks+1)
	}
	require.Equal(t, other, store.claims[0].Spec)
}

// One turn of a peer of many gateways makes few claims; the next ones make the
// rest.
func TestClaimsOfATurnAreBounded(t *testing.T) {
	store := &claimStore{}
	var ids []int32
	for id := range int32(16) {
		ids = append(ids, id+1)
	}
	record := peerRecord(ids...)
	var networks []channel.Network
	for i := range channel.MaxNetworks {
		networks = append(networks, channel.Network{Name: "pods", Kind: v1alpha1.NetworkPod, CIDR: cidr(fmt.Sprintf("10.%d.0.0/24", i))})
	}
	var existing *v1alpha1.NeighborSpec
	for turn := 1; ; turn++ {
		require.Less(t, turn, 40)
		before := len(store.claims)
		views, wires, err := newPrefixes(store, record, existing).resolve(t.Context(), networks)
		require.LessOrEqual(t, len(store.claims)-before, claimsPerTurn)
		spec, _, buildErr := buildNeighbor(neighborInput{Record: record, Existing: existing, Index: 1, Direct: true, Views: views, Wires: wires, OwnGateways: []int32{1}})
		require.NoError(t, buildErr)
		existing = &spec
		if err == nil {
			break
		}
		require.True(t, errors.Is(err, errMoreLater), "%v", err)
	}
	require.Len(t, existing.Rows, 16*channel.MaxNetworks)
}

func newPrefixes(store *claimStore, record *identity.Record, existing *v1alpha1.NeighborSpec) *prefixes {
	return &prefixes{
		store: store, record: record, direct: true, existing: existing,
		config:    &v1alpha1.FabricConfig{Spec: v1alpha1.FabricConfigSpec{Pools: []v1alpha1.CIDR{"100.64.0.0/10"}, WirePools: []v1alpha1.CIDR{"240.0.0.0/5"}}},
		avoid:     func(context.Context) ([]netip.Prefix, error) { return nil, nil },
		neighbors: func(context.Context) ([]v1alpha1.Neighbor, error) { return nil, nil },
	}
}
