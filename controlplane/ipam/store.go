package ipam

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// APIStore is the Store in an API server.
type APIStore struct {
	// Reader must be uncached.
	Reader client.Reader
	Writer client.Writer
}

// List implements Store.
func (s APIStore) List(ctx context.Context) ([]v1alpha1.PrefixClaim, error) {
	var list v1alpha1.PrefixClaimList
	if err := s.Reader.List(ctx, &list); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Create implements Store.
func (s APIStore) Create(ctx context.Context, claim *v1alpha1.PrefixClaim) error {
	return s.Writer.Create(ctx, claim)
}

// Delete implements Store.
func (s APIStore) Delete(ctx context.Context, claim *v1alpha1.PrefixClaim) error {
	return s.Writer.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
}
