package peering

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/fabric"
)

// hopeless is why no Neighbor can be made until somebody changes an object.
type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

// ensureNeighbor makes the Neighbor what it should be. Its second result says
// which network found no prefix; the others are in place.
func (r *Reconciler) ensureNeighbor(ctx context.Context, fc *v1alpha1.ForeignCluster, s *snapshot, record *identity.Record, said channel.Snapshot) (*v1alpha1.Neighbor, error, error) {
	neighbor := find(s.neighbors, fc.Name)
	var existing *v1alpha1.NeighborSpec
	if neighbor != nil {
		if neighbor.Spec.Identity != fc.Spec.Identity {
			return nil, nil, hopeless{fmt.Errorf("neighbor %s belongs to another identity: delete it (kubectl delete neighbor %s)", fc.Name, fc.Name)}
		}
		existing = &neighbor.Spec
	}
	networks := said.Networks
	if networks == nil {
		networks = networksOf(existing)
	}
	p := &prefixes{store: r.Claims, config: s.config, existing: existing, record: record, avoid: r.avoid(s), neighbors: r.listNeighbors}
	views, wires, prefixProblem := p.resolve(ctx, networks)
	index, err := r.clusterIndex(ctx, existing)
	if err != nil {
		return nil, nil, err
	}
	spec, err := buildNeighbor(neighborInput{
		Record: record, Existing: existing, Index: index, Access: fc.Spec.Access,
		Views: views, Wires: wires,
		OwnNetworks: s.config.Status.Networks, OwnGateways: ownGateways(s.nodes),
		Offers: said.Offers, MTU: said.MTU,
	})
	if err != nil {
		return nil, nil, hopeless{fmt.Errorf("peer with %s: %w", fc.Name, err)}
	}
	neighbor, err = r.writeNeighbor(ctx, fc.Name, neighbor, spec)
	return neighbor, prefixProblem, err
}

func (r *Reconciler) clusterIndex(ctx context.Context, existing *v1alpha1.NeighborSpec) (int32, error) {
	if existing != nil {
		return existing.ClusterIndex, nil
	}
	neighbors, err := r.listNeighbors(ctx)
	if err != nil {
		return 0, err
	}
	index, err := freeClusterIndex(neighbors)
	if err != nil {
		return 0, hopeless{err}
	}
	return index, nil
}

func (r *Reconciler) writeNeighbor(ctx context.Context, name string, have *v1alpha1.Neighbor, spec v1alpha1.NeighborSpec) (*v1alpha1.Neighbor, error) {
	if have == nil {
		created := &v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		if err := r.Client.Create(ctx, created); err != nil {
			return nil, fmt.Errorf("create neighbor %s: %w", name, err)
		}
		return created, nil
	}
	if equality.Semantic.DeepEqual(have.Spec, spec) {
		return have, nil
	}
	changed := have.DeepCopy()
	changed.Spec = spec
	if err := r.Client.Update(ctx, changed); err != nil {
		return nil, fmt.Errorf("update neighbor %s: %w", name, err)
	}
	return changed, nil
}

// avoid computes what is never handed out, when it is first asked.
func (r *Reconciler) avoid(s *snapshot) func(context.Context) ([]netip.Prefix, error) {
	var known []netip.Prefix
	return func(ctx context.Context) ([]netip.Prefix, error) {
		if known == nil {
			detected, err := fabric.Detect(ctx, r.Reader)
			if err != nil {
				return nil, err
			}
			known = fabric.Avoid(s.config, s.nodes, s.neighbors, detected.Taken())
		}
		return known, nil
	}
}

func (r *Reconciler) listNeighbors(ctx context.Context) ([]v1alpha1.Neighbor, error) {
	var list v1alpha1.NeighborList
	if err := r.Reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list neighbors: %w", err)
	}
	return list.Items, nil
}

func find(neighbors []v1alpha1.Neighbor, name string) *v1alpha1.Neighbor {
	for i := range neighbors {
		if neighbors[i].Name == name {
			return &neighbors[i]
		}
	}
	return nil
}

// ownGateways returns the gateway ids of this cluster.
func ownGateways(nodes []v1alpha1.FabricNode) []int32 {
	var ids []int32
	for i := range nodes {
		if id := nodes[i].Spec.GatewayID; id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
