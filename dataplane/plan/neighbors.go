package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// minMTU is the least that every IPv4 host must take in (RFC 791, 3.1).
const minMTU = 576

// neighbor is a Neighbor whose identity and index have been accepted.
type neighbor struct {
	object  *v1alpha1.Neighbor
	cluster uint8
	views   []network
	peers   []*peer
	policy  v1alpha1.PathPolicy
}

// neighbors accepts what is sound of each Neighbor: views, then peers.
func (b *builder) neighbors() {
	indexes, identities := map[int32]string{}, map[v1alpha1.Identity]string{}
	keys := map[[32]byte]string{}
	for i := range b.in.Neighbors {
		object := &b.in.Neighbors[i]
		if object.DeletionTimestamp != nil {
			continue
		}
		spec := &object.Spec
		switch {
		case checkIndex(spec.ClusterIndex) != nil || indexes[spec.ClusterIndex] != "":
			b.problem(object.Name, "it is left out: its cluster index %d is not unique or not within 1 to 255", spec.ClusterIndex)
			continue
		case spec.Identity == b.in.Config.Status.Identity || identities[spec.Identity] != "":
			b.problem(object.Name, "it is left out: its identity %.60s is this cluster's own or another neighbor's", spec.Identity)
			continue
		}
		indexes[spec.ClusterIndex], identities[spec.Identity] = object.Name, object.Name
		n := &neighbor{object: object, cluster: uint8(spec.ClusterIndex), policy: b.neighborPolicy(object)}
		b.directOnly[n.cluster] = n.policy == v1alpha1.PathDirectOnly
		b.neighborViews(n)
		if b.isGateway() {
			b.neighborPeers(n, keys)
		}
		b.accepted = append(b.accepted, n)
	}
}

// neighborPolicy takes a policy of a later version for the strictest.
func (b *builder) neighborPolicy(object *v1alpha1.Neighbor) v1alpha1.PathPolicy {
	switch policy := object.Spec.Paths; policy {
	case "":
		return v1alpha1.PathAny
	case v1alpha1.PathAny, v1alpha1.PathDirectOnly, v1alpha1.PathHubOnly:
		return policy
	default:
		b.problem(object.Name, "no hub is used for it: this agent does not know the path policy %.50q; upgrade it", policy)
		return v1alpha1.PathDirectOnly
	}
}

func (b *builder) neighborViews(n *neighbor) {
	views := slices.Clone(n.object.Spec.Networks)
	slices.SortFunc(views, func(x, y v1alpha1.ViewNetwork) int { return cmp.Compare(x.Index, y.Index) })
	for _, v := range views {
		p, ok, err := parseNetwork(v.Local)
		if err == nil && !ok {
			continue
		}
		id := networkID{n.cluster, uint8(v.Index)}
		if err == nil {
			err = b.checkView(v, id, p)
		}
		if err == nil {
			err = b.views.add(p, "neighbor "+n.object.Name)
		}
		if err != nil {
			b.problem(n.object.Name, "network %.30s is left out: %v", v.Name, err)
			continue
		}
		b.networks[id] = network{id, v.Kind, p}
		n.views = append(n.views, b.networks[id])
	}
}

func (b *builder) checkView(v v1alpha1.ViewNetwork, id networkID, p netip.Prefix) error {
	if err := checkIndex(v.Index); err != nil {
		return err
	}
	if _, ok := b.networks[id]; ok {
		return fmt.Errorf("its index %d is not unique", v.Index)
	}
	for i := range b.nodes {
		if p.Contains(b.nodes[i].underlay) {
			return fmt.Errorf("%s contains the underlay address of node %s", p, b.nodes[i].object.Name)
		}
	}
	return nil
}

// localView enters what this node calls every known network: the first table
// of each direction, and a route per foreign network.
func (b *builder) localView() {
	for _, n := range b.networks {
		entry := n.entry()
		insert(b.plan.Maps.View4, b.plan.Maps.View4Long, &b.plan.Maps.Lengths.View4, n.local, entry, bpfgen.BorderWeftNet{Flags: bpfgen.NetLonger})
	}
	for _, n := range b.accepted {
		mtu := b.clusterMTU(n)
		b.plan.Maps.Clusters[uint32(n.cluster)] = bpfgen.BorderWeftCluster{Mtu: uint32(mtu)}
		b.plan.Names.Clusters = append(b.plan.Names.Clusters, ClusterName{
			Neighbor: n.object.Name, Index: int32(n.cluster), DirectOnly: b.directOnly[n.cluster],
		})
		for _, v := range n.views {
			b.plan.Routing.Routes = append(b.plan.Routing.Routes, Route{Destination: v.local, Source: b.plan.Overlay.FabricAddress, MTU: mtu})
		}
	}
	slices.SortFunc(b.plan.Routing.Routes, func(x, y Route) int { return x.Destination.Compare(y.Destination) })
}

func (b *builder) clusterMTU(n *neighbor) int {
	mtu := b.pathMTU()
	switch theirs := int(n.object.Spec.MTU); {
	case theirs == 0:
	case theirs < minMTU:
		b.problem(n.object.Name, "its MTU %d is ignored: it is below %d", theirs, minMTU)
	default:
		mtu = min(mtu, theirs)
	}
	return mtu
}
