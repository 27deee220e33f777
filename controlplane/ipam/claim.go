package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// maxAttempts bounds how often a claim is tried anew after it lost to another.
const maxAttempts = 32

// ErrExhausted is wrapped by Claim's error when no pool has a free block.
var ErrExhausted = errors.New("no free block")

// Store reads and writes PrefixClaims. List must not be served from a cache.
// Create's error satisfies apierrors.IsAlreadyExists for a name that exists;
// Delete removes exactly the object with that UID.
type Store interface {
	List(ctx context.Context) ([]v1alpha1.PrefixClaim, error)
	Create(ctx context.Context, claim *v1alpha1.PrefixClaim) error
	Delete(ctx context.Context, claim *v1alpha1.PrefixClaim) error
}

// Request is what somebody needs a block for. Everything in Key but the prefix
// names the need: the same key always gets the same block.
type Request struct {
	Key  v1alpha1.PrefixClaimSpec
	Bits int
	// Pools in order; Avoid is never handed out.
	Pools []netip.Prefix
	Avoid []netip.Prefix
	// Reclaimable says which claims may be deleted, oldest first, when the pools
	// run dry. Nil: none.
	Reclaimable func(*v1alpha1.PrefixClaim) bool
	// Own says which of them are of the one who asks. When there are more than
	// Kept, the oldest goes first. Nil: there is no such bound.
	Own  func(*v1alpha1.PrefixClaim) bool
	Kept int
	// Idle says that nobody uses the block that the key may hold. It is then
	// given back if something to avoid has come to lie in it.
	Idle bool
}

// Claim returns the block that the request's key holds, or takes a new one.
//
// A new block is used only after an uncached list that was made after its
// creation shows no older claim that overlaps it: of two controllers that take
// overlapping blocks, the one that created later sees the other's, gives its
// own back and tries again.
func Claim(ctx context.Context, store Store, request Request) (netip.Prefix, error) {
	for range maxAttempts {
		claims, err := store.List(ctx)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("list prefix claims: %w", err)
		}
		if held, claim := holder(claims, request.Key); claim != nil {
			if !request.Idle || !slices.ContainsFunc(request.Avoid, held.Overlaps) {
				return held, nil
			}
			if err := giveBack(ctx, store, claim); err != nil {
				return netip.Prefix{}, err
			}
			continue
		}
		if err := sweep(ctx, store, claims, request.Key); err != nil {
			return netip.Prefix{}, err
		}
		if request.Own != nil {
			if reclaimed, err := reclaim(ctx, store, claims, request.Own, request.Kept); err != nil {
				return netip.Prefix{}, err
			} else if reclaimed {
				continue
			}
		}
		block, ok := Find(request.Pools, append(prefixesOf(claims), request.Avoid...), request.Bits)
		if !ok {
			if reclaimed, err := reclaim(ctx, store, claims, request.Reclaimable, 0); err != nil {
				return netip.Prefix{}, err
			} else if reclaimed {
				continue
			}
			return netip.Prefix{}, fmt.Errorf("%w of length /%d in %s: add a pool to FabricConfig spec.pools or delete PrefixClaims that are not needed any more",
				ErrExhausted, request.Bits, join(request.Pools))
		}
		if err := take(ctx, store, request.Key, block); err != nil {
			return netip.Prefix{}, err
		}
		// The next turn lists anew and finds the block if it stands.
	}
	return netip.Prefix{}, fmt.Errorf("claim a prefix for network %s: others took every block first, %d times; it will be tried again", request.Key.Network, maxAttempts)
}

// take creates a claim, lists, and gives the claim back if an older one
// overlaps it.
func take(ctx context.Context, store Store, key v1alpha1.PrefixClaimSpec, block netip.Prefix) error {
	claim := &v1alpha1.PrefixClaim{ObjectMeta: metav1.ObjectMeta{Name: Name(block)}, Spec: key}
	claim.Spec.Prefix = v1alpha1.CIDR(block.String())
	if err := store.Create(ctx, claim); apierrors.IsAlreadyExists(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("create prefix claim %s: %w", claim.Name, err)
	}
	claims, err := store.List(ctx)
	if err != nil {
		// Unverified: the claim stays, and the next Claim verifies it first.
		return fmt.Errorf("list prefix claims: %w", err)
	}
	mine := slices.IndexFunc(claims, func(c v1alpha1.PrefixClaim) bool { return c.UID == claim.UID })
	if mine >= 0 && stands(claims, &claims[mine]) {
		return nil
	}
	return giveBack(ctx, store, claim)
}

// sweep gives back claims with this key that do not stand. Nobody uses them:
// whoever made them did not get to the end of take.
func sweep(ctx context.Context, store Store, claims []v1alpha1.PrefixClaim, key v1alpha1.PrefixClaimSpec) error {
	for i := range claims {
		if c := &claims[i]; sameKey(c.Spec, key) && !stands(claims, c) {
			if err := giveBack(ctx, store, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func giveBack(ctx context.Context, store Store, claim *v1alpha1.PrefixClaim) error {
	err := store.Delete(ctx, claim)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("give back prefix claim %s: %w", claim.Name, err)
}

// holder returns the block of the oldest claim with this key that stands, and
// that claim, nil if there is none.
func holder(claims []v1alpha1.PrefixClaim, key v1alpha1.PrefixClaimSpec) (netip.Prefix, *v1alpha1.PrefixClaim) {
	var best *v1alpha1.PrefixClaim
	for i := range claims {
		if c := &claims[i]; sameKey(c.Spec, key) && stands(claims, c) && (best == nil || older(c, best)) {
			best = c
		}
	}
	if best == nil {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(string(best.Spec.Prefix))
	if err != nil {
		return netip.Prefix{}, nil
	}
	return p, best
}

// stands reports whether no older claim overlaps this one or has its key.
func stands(claims []v1alpha1.PrefixClaim, claim *v1alpha1.PrefixClaim) bool {
	own, err := netip.ParsePrefix(string(claim.Spec.Prefix))
	if err != nil {
		return false
	}
	for i := range claims {
		other := &claims[i]
		if other.UID == claim.UID || !older(other, claim) {
			continue
		}
		if p, err := netip.ParsePrefix(string(other.Spec.Prefix)); err == nil && p.Overlaps(own) {
			return false
		}
		if sameKey(other.Spec, claim.Spec) {
			return false
		}
	}
	return true
}

// older reports whether a was created before b. Claims never change, so their
// resource versions are those of their creation, which the API server orders
// (KEP-5504); wall clocks of several API servers do not.
func older(a, b *v1alpha1.PrefixClaim) bool {
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && order != 0 {
		return order < 0
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// reclaim deletes the oldest claim that may go, if more than kept may. Nil: none
// may.
func reclaim(ctx context.Context, store Store, claims []v1alpha1.PrefixClaim, may func(*v1alpha1.PrefixClaim) bool, kept int) (bool, error) {
	if may == nil {
		return false, nil
	}
	var oldest *v1alpha1.PrefixClaim
	count := 0
	for i := range claims {
		if c := &claims[i]; may(c) {
			count++
			if oldest == nil || older(c, oldest) {
				oldest = c
			}
		}
	}
	if count <= kept {
		return false, nil
	}
	return true, giveBack(ctx, store, oldest)
}

func sameKey(a, b v1alpha1.PrefixClaimSpec) bool {
	a.Prefix, b.Prefix = "", ""
	return a == b
}

// Name of the claim for a block: v4-100-70-0-0-16 for 100.70.0.0/16.
func Name(block netip.Prefix) string {
	family := "v4-"
	if block.Addr().Is6() {
		family = "v6-"
	}
	addr := strings.NewReplacer(".", "-", ":", "-").Replace(block.Masked().Addr().StringExpanded())
	return family + addr + "-" + strconv.Itoa(block.Bits())
}

func prefixesOf(claims []v1alpha1.PrefixClaim) []netip.Prefix {
	var prefixes []netip.Prefix
	for i := range claims {
		if p, err := netip.ParsePrefix(string(claims[i].Spec.Prefix)); err == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

func join(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}
