package peering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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

// errNoWay: there is neither a tunnel to a cluster nor a hub.
var errNoWay = errors.New("no way leads to the cluster yet")

// crowded names clusters whose rows do not fit beside the others.
type crowded struct{ clusters []string }

func (c crowded) Error() string {
	return fmt.Sprintf("the Neighbor holds no more than %d rows, so there are none for %s: use fewer gateways, or let fewer clusters be reached through this one",
		maxRows, strings.Join(c.clusters, ", "))
}

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
	hubs := s.hubsOf(fc)
	if existing == nil && !direct(fc) && len(hubs) == 0 {
		return nil, nil, errNoWay
	}
	record, foreign := s.withoutForeignKeys(fc, record)
	networks := s.exported(fc)
	if networks == nil && existing != nil {
		networks = networksOf(existing.Networks)
	}
	behind := s.behind(fc)
	p := &prefixes{store: r.Claims, config: s.config, existing: existing, record: record, direct: direct(fc), behind: behind, avoid: r.avoid(s), neighbors: r.listNeighbors}
	views, wires, prefixProblem := p.resolve(ctx, networks)
	index, err := r.clusterIndex(ctx, existing)
	if err != nil {
		return nil, nil, err
	}
	spec, leftOut, err := buildNeighbor(neighborInput{
		Record: record, Existing: existing, Index: index,
		Direct: direct(fc), Pods: s.podsOf(fc), Paths: pathPolicy(fc, said.OffDirect),
		Views: withHeld(views, existing, s.neighbors), Wires: wires, Behind: behind, Forwarded: s.forwarded(fc),
		OwnNetworks: s.config.Status.Networks, OwnGateways: ownGateways(s.nodes),
		Offers: said.Offers, MTU: s.mtuOf(fc, said.MTU),
	})
	if err != nil {
		return nil, nil, hopeless{fmt.Errorf("peer with %s: %w", fc.Name, err)}
	}
	if len(leftOut) > 0 {
		prefixProblem = firstOf(prefixProblem, crowded{leftOut})
	}
	if foreign != nil {
		prefixProblem = firstOf(prefixProblem, foreign)
	}
	neighbor, err = r.writeNeighbor(ctx, fc.Name, neighbor, spec)
	return neighbor, prefixProblem, err
}

// withHeld adds to the views those of networks that are not exported any more
// while rows of other neighbors name them: the rows go first.
func withHeld(views []v1alpha1.ViewNetwork, existing *v1alpha1.NeighborSpec, neighbors []v1alpha1.Neighbor) []v1alpha1.ViewNetwork {
	if existing == nil {
		return views
	}
	held := map[int32]bool{}
	for i := range neighbors {
		if neighbors[i].Spec.ClusterIndex == existing.ClusterIndex {
			continue
		}
		for _, row := range neighbors[i].Spec.Rows {
			if row.OriginIndex == existing.ClusterIndex {
				held[row.NetworkIndex] = true
			}
		}
	}
	for _, n := range views {
		delete(held, n.Index)
	}
	for _, n := range existing.Networks {
		if held[n.Index] {
			views = append(views, n)
		}
	}
	slices.SortFunc(views, func(a, b v1alpha1.ViewNetwork) int { return cmp.Compare(a.Index, b.Index) })
	return views
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
