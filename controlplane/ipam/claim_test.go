package ipam

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

var claimResource = schema.GroupResource{Group: "net.weft.dev", Resource: "prefixclaims"}

// memoryStore is an API server in small: one revision counter for all objects.
type memoryStore struct {
	mu       sync.Mutex
	revision int
	claims   map[string]v1alpha1.PrefixClaim
	// interleave runs before each call, outside the lock.
	interleave func()
}

func newMemoryStore() *memoryStore {
	return &memoryStore{claims: map[string]v1alpha1.PrefixClaim{}, interleave: func() {}}
}

func (m *memoryStore) List(context.Context) ([]v1alpha1.PrefixClaim, error) {
	m.interleave()
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []v1alpha1.PrefixClaim
	for _, c := range m.claims {
		list = append(list, c)
	}
	return list, nil
}

func (m *memoryStore) Create(_ context.Context, claim *v1alpha1.PrefixClaim) error {
	m.interleave()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.claims[claim.Name]; ok {
		return apierrors.NewAlreadyExists(claimResource, claim.Name)
	}
	m.revision++
	claim.ResourceVersion = strconv.Itoa(m.revision)
	claim.UID = types.UID("uid-" + claim.ResourceVersion)
	m.claims[claim.Name] = *claim
	return nil
}

func (m *memoryStore) Delete(_ context.Context, claim *v1alpha1.PrefixClaim) error {
	m.interleave()
	m.mu.Lock()
	defer m.mu.Unlock()
	stored, ok := m.claims[claim.Name]
	if !ok {
		return apierrors.NewNotFound(claimResource, claim.Name)
	}
	if stored.UID != claim.UID {
		return apierrors.NewConflict(claimResource, claim.Name, errors.New("uid"))
	}
	delete(m.claims, claim.Name)
	return nil
}

func view(identity string, bits int) Request {
	return Request{
		Key:   v1alpha1.PrefixClaimSpec{Purpose: v1alpha1.ClaimView, Identity: identity, Network: "pods", CIDR: "10.244.0.0/16"},
		Bits:  bits,
		Pools: prefixes("100.64.0.0/10"),
	}
}

func TestClaimIsStable(t *testing.T) {
	store := newMemoryStore()
	first, err := Claim(t.Context(), store, view("b", 16))
	require.NoError(t, err)
	other, err := Claim(t.Context(), store, view("c", 16))
	require.NoError(t, err)
	require.False(t, first.Overlaps(other))
	again := view("b", 16)
	again.Pools = prefixes("10.0.0.0/8") // a later change of pools moves nothing
	same, err := Claim(t.Context(), store, again)
	require.NoError(t, err)
	require.Equal(t, first, same)
	require.Len(t, store.claims, 2)
}

// Property: controllers that know nothing of each other and take blocks of
// mixed sizes at the same time end with disjoint blocks, one per key.
func TestClaimConcurrently(t *testing.T) {
	for round := range 50 {
		random := rand.New(rand.NewPCG(uint64(round), 7))
		store := newMemoryStore()
		var mu sync.Mutex
		store.interleave = func() {
			mu.Lock()
			yields := random.IntN(4)
			mu.Unlock()
			for range yields {
				pause := make(chan struct{})
				go close(pause)
				<-pause
			}
		}
		const keys, leaders = 4, 3
		got := [leaders][keys]netip.Prefix{}
		var group sync.WaitGroup
		for leader := range leaders {
			for key := range keys {
				group.Go(func() {
					for got[leader][key] == (netip.Prefix{}) {
						block, err := Claim(context.Background(), store, view(strconv.Itoa(key), 12+2*key))
						if err == nil {
							got[leader][key] = block
						}
					}
				})
			}
		}
		group.Wait()
		for key := range keys {
			for leader := range leaders {
				require.Equal(t, got[0][key], got[leader][key], "round %d: two leaders, two blocks for one key", round)
			}
			for other := range key {
				require.False(t, got[0][key].Overlaps(got[0][other]), "round %d: %v overlaps %v", round, got[0][key], got[0][other])
			}
		}
	}
}

func TestClaimGivesWayToAnOlderOverlap(t *testing.T) {
	// Another controller's /12 was created before our /16, but our first list
	// did not show it yet.
	store := newMemoryStore()
	calls := 0
	store.interleave = func() {
		if calls++; calls != 2 { // between our first list and our create
			return
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		store.revision++
		store.claims["v4-100-64-0-0-12"] = v1alpha1.PrefixClaim{Spec: v1alpha1.PrefixClaimSpec{Prefix: "100.64.0.0/12", Purpose: v1alpha1.ClaimView, Identity: "other"}}
		c := store.claims["v4-100-64-0-0-12"]
		c.Name, c.UID, c.ResourceVersion = "v4-100-64-0-0-12", "other", strconv.Itoa(store.revision)
		store.claims[c.Name] = c
	}
	block, err := Claim(t.Context(), store, view("b", 16))
	require.NoError(t, err)
	require.Equal(t, netip.MustParsePrefix("100.80.0.0/16"), block)
	require.Len(t, store.claims, 2, "the losing claim is given back")
}

func TestClaimReclaimsOldestFirst(t *testing.T) {
	store := newMemoryStore()
	small := func(identity string) Request {
		r := view(identity, 16)
		r.Pools = prefixes("100.64.0.0/15")
		r.Reclaimable = func(c *v1alpha1.PrefixClaim) bool { return c.Spec.Identity != "kept" }
		return r
	}
	for _, identity := range []string{"kept", "gone"} {
		_, err := Claim(t.Context(), store, small(identity))
		require.NoError(t, err)
	}
	block, err := Claim(t.Context(), store, small("new"))
	require.NoError(t, err)
	require.Equal(t, "100.65.0.0/16", block.String())

	full := small("last")
	full.Reclaimable = nil
	_, err = Claim(t.Context(), store, full)
	require.ErrorIs(t, err, ErrExhausted)
	require.ErrorContains(t, err, "100.64.0.0/15")
}

func TestName(t *testing.T) {
	require.Equal(t, "v4-100-70-0-0-16", Name(netip.MustParsePrefix("100.70.0.0/16")))
	require.Equal(t, fmt.Sprintf("v6-%s-32", "fd77-0001-0000-0000-0000-0000-0000-0000"), Name(netip.MustParsePrefix("fd77:1::/32")))
}

// A block that was kept for a peer is not used again once something else has
// come to lie in it.
func TestKeptBlockIsTakenMeanwhile(t *testing.T) {
	store := newMemoryStore()
	request := view("b", 16)
	request.Idle = true
	first, err := Claim(t.Context(), store, request)
	require.NoError(t, err)
	same, err := Claim(t.Context(), store, request)
	require.NoError(t, err)
	require.Equal(t, first, same)
	request.Avoid = []netip.Prefix{netip.PrefixFrom(first.Addr(), 24)}
	other, err := Claim(t.Context(), store, request)
	require.NoError(t, err)
	require.False(t, other.Overlaps(request.Avoid[0]), "%s", other)
	require.Len(t, store.claims, 1)
	request.Avoid, request.Idle = []netip.Prefix{other}, false
	used, err := Claim(t.Context(), store, request)
	require.NoError(t, err)
	require.Equal(t, other, used, "what is in use does not move")
}
