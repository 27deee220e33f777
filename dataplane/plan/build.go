package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Build returns what the node should have. It is deterministic: equal input
// gives an equal plan, whatever the order of the objects. What is wrong in the
// input becomes a Problem and is left out; the rest stands.
//
// Without a FabricConfig or a FabricNode of this node the plan is the zero
// plan. Without a fabric address or a VNI it holds no more than the lanes, so
// that their keys can be published.
func Build(in Input) (Plan, []Problem) {
	b := &builder{
		in:       in,
		networks: map[networkID]network{},
		views:    &disjoint{},
		wires:    &disjoint{},

		directOnly: map[uint8]bool{},
	}
	b.sort()
	if in.Config == nil || !b.findSelf() {
		return Plan{}, b.problems
	}
	b.plan.Maps = emptyMaps()
	b.plan.Routing.Table = int(in.Config.Spec.Routing.Table)
	b.plan.Routing.RulePriority = int(in.Config.Spec.Routing.RulePriority)
	b.plan.Names.Gateway = b.self.Spec.GatewayID

	b.ownNetworks()
	b.clusterNodes()
	b.overlay()
	b.lane()
	if b.plan.Overlay == nil {
		return b.plan, b.problems
	}
	b.neighbors()
	b.localView()
	b.rows()
	b.firewall()
	return b.plan, b.problems
}

// builder holds what the steps of Build share.
type builder struct {
	in   Input
	self *v1alpha1.FabricNode

	// networks are all known ones, own and foreign, by cluster and index.
	networks map[networkID]network
	// views holds own networks and local views, wires the wire prefixes of
	// sources: within each, no two prefixes may overlap.
	views, wires *disjoint
	// nodes of the cluster with an underlay address, this one included.
	nodes []clusterNode
	// accepted neighbors in the order of their cluster index.
	accepted []*neighbor
	// directOnly are the clusters whose packets hubs may not bring.
	directOnly map[uint8]bool

	plan     Plan
	problems []Problem
}

type networkID struct{ cluster, index uint8 }

// network is an own network in its real CIDR or a foreign one in local view.
type network struct {
	id    networkID
	kind  v1alpha1.NetworkKind
	local netip.Prefix
}

// flags of the network's entries in maps.
func (n network) flags() uint8 {
	if n.kind == v1alpha1.NetworkNode {
		return bpfgen.NetValid | bpfgen.NetNode
	}
	return bpfgen.NetValid
}

func (n network) entry() bpfgen.BorderWeftNet {
	return bpfgen.BorderWeftNet{
		Flags: n.flags(), PrefixLen: uint8(n.local.Bits()),
		Cluster: n.id.cluster, Network: n.id.index,
	}
}

// sort makes the plan independent of the order in which objects arrive.
func (b *builder) sort() {
	b.in.Nodes = slices.Clone(b.in.Nodes)
	slices.SortFunc(b.in.Nodes, func(x, y v1alpha1.FabricNode) int { return cmp.Compare(x.Name, y.Name) })
	b.in.Neighbors = slices.Clone(b.in.Neighbors)
	slices.SortFunc(b.in.Neighbors, func(x, y v1alpha1.Neighbor) int {
		return cmp.Or(cmp.Compare(x.Spec.ClusterIndex, y.Spec.ClusterIndex), cmp.Compare(x.Name, y.Name))
	})
}

func (b *builder) findSelf() bool {
	i := slices.IndexFunc(b.in.Nodes, func(n v1alpha1.FabricNode) bool { return n.Name == b.in.Node })
	if i < 0 {
		b.problem("", "there is no FabricNode %s: weft-controller makes it once it runs and the Node exists", b.in.Node)
		return false
	}
	b.self = &b.in.Nodes[i]
	return true
}

func (b *builder) problem(neighbor, format string, args ...any) {
	b.problems = append(b.problems, Problem{Neighbor: neighbor, Message: fmt.Sprintf(format, args...)})
}

// isGateway reports whether this node terminates tunnels.
func (b *builder) isGateway() bool { return b.self.Spec.GatewayID > 0 }

// ownNetworks takes this cluster's networks from the FabricConfig's status.
func (b *builder) ownNetworks() {
	own := slices.Clone(b.in.Config.Status.Networks)
	slices.SortFunc(own, func(x, y v1alpha1.OwnNetwork) int { return cmp.Compare(x.Index, y.Index) })
	for _, o := range own {
		p, ok, err := parseNetwork(o.CIDR)
		if err == nil && !ok {
			continue
		}
		if err == nil {
			err = checkIndex(o.Index)
		}
		if err == nil {
			err = b.views.add(p, "own network "+o.Name)
		}
		if err != nil {
			b.problem("", "own network %s (%s) is left out: %v", o.Name, o.CIDR, err)
			continue
		}
		id := networkID{bpfgen.Self, uint8(o.Index)}
		b.networks[id] = network{id, o.Kind, p}
	}
}

// ownPrefixes returns the own networks of a kind, sorted.
func (b *builder) ownPrefixes(kind v1alpha1.NetworkKind) []netip.Prefix {
	var out []netip.Prefix
	for id, n := range b.networks {
		if id.cluster == bpfgen.Self && n.kind == kind {
			out = append(out, n.local)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

func emptyMaps() Maps {
	return Maps{
		View4:     map[uint32]bpfgen.BorderWeftNet{},
		View4Long: map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftNet{},
		Wire4:     map[uint32]bpfgen.BorderWeftWire{},
		Wire4Long: map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftWire{},
		Theirs4:   map[bpfgen.BorderWeftTheirsKey]bpfgen.BorderWeftNet{},
		Rows4:     map[bpfgen.BorderWeftRowKey]bpfgen.BorderWeftRow4{},
		Links:     map[uint32]Link{},
		Accept:    map[bpfgen.BorderWeftAcceptKey]uint32{},
		Transit:   map[uint32]uint32{},
		Gateways4: map[uint32]bpfgen.BorderWeftGateway4{},
		Clusters:  map[uint32]bpfgen.BorderWeftCluster{},
		Places4:   map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftPlace4{},
		Nodes4:    map[uint32]uint32{},
	}
}
