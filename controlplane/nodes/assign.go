// Package nodes keeps one FabricNode per Node: its fabric address, and whether
// it is a gateway and under which id.
package nodes

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	maxGatewayID = 255
	// gatewayGrace is how long the one automatically chosen gateway may be not
	// ready before another node takes its place. A node that reboots comes back
	// sooner; moving changes the record that every peer holds.
	gatewayGrace = 2 * time.Minute
	// drainFor is how long a gateway stays beside the ones that replace it while
	// all peers can be told of them, and drainMost if some cannot.
	drainFor, drainMost = 30 * time.Second, time.Hour
	// Nodes with this label have no network stack of their own.
	virtualNodeLabel, virtualNodeValue = "type", "virtual-kubelet"
	controlPlaneLabel                  = "node-role.kubernetes.io/control-plane"
)

// Input of Assign.
type Input struct {
	Nodes    []corev1.Node
	Existing []v1alpha1.FabricNode
	Gateways v1alpha1.GatewaySpec
	// Network gives the fabric addresses; invalid while there is none.
	Network netip.Prefix
	// Drained says that peers have had time to learn of the present gateways.
	Drained bool
	Now     time.Time
}

// Assign returns the spec of every node's FabricNode by name. What a node has
// and may keep, it keeps.
func Assign(in Input) map[string]v1alpha1.FabricNodeSpec {
	nodes := eligible(in.Nodes)
	held := map[string]v1alpha1.FabricNodeSpec{}
	existing := slices.Clone(in.Existing)
	slices.SortFunc(existing, func(a, b v1alpha1.FabricNode) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range existing {
		held[existing[i].Name] = existing[i].Spec
	}
	out := map[string]v1alpha1.FabricNodeSpec{}
	addresses := assignAddresses(nodes, existing, in.Network)
	ids := assignIDs(gatewaysWithRetiring(nodes, held, in), existing)
	for _, n := range nodes {
		out[n.Name] = v1alpha1.FabricNodeSpec{FabricAddress: addresses[n.Name], GatewayID: ids[n.Name]}
	}
	return out
}

// eligible nodes run an agent, sorted by name.
func eligible(all []corev1.Node) []corev1.Node {
	var nodes []corev1.Node
	for _, n := range all {
		if os := n.Labels[corev1.LabelOSStable]; os != "" && os != "linux" {
			continue
		}
		if n.Labels[virtualNodeLabel] == virtualNodeValue {
			continue
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// assignAddresses gives each node an address of the network. Host 0 belongs to
// probes. A node that finds the network full gets none.
func assignAddresses(nodes []corev1.Node, existing []v1alpha1.FabricNode, network netip.Prefix) map[string]string {
	out := map[string]string{}
	if !network.IsValid() {
		return out
	}
	isNode := map[string]bool{}
	for _, n := range nodes {
		isNode[n.Name] = true
	}
	used := map[netip.Addr]bool{network.Masked().Addr(): true}
	for i := range existing {
		addr, err := netip.ParseAddr(existing[i].Spec.FabricAddress)
		if err == nil && isNode[existing[i].Name] && network.Contains(addr) && !used[addr] {
			used[addr] = true
			out[existing[i].Name] = addr.String()
		}
	}
	next := network.Masked().Addr()
	for _, n := range nodes {
		if out[n.Name] != "" {
			continue
		}
		for used[next] && network.Contains(next) {
			next = next.Next()
		}
		if !network.Contains(next) {
			return out
		}
		used[next] = true
		out[n.Name] = next.String()
	}
	return out
}

// gatewaysWithRetiring returns the gateways and, beside them, those that were
// ones until now. A peer knows only the keys of the old ones and learns of the
// new ones through their tunnels, so an old one goes only after the new ones are
// there and peers have had time; one whose node is down stays, for its tunnel is
// the only one that comes up when the node does.
func gatewaysWithRetiring(nodes []corev1.Node, held map[string]v1alpha1.FabricNodeSpec, in Input) []string {
	names := gateways(nodes, held, in)
	if len(names) > 0 && in.Drained && settled(names, in.Existing) {
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return Ready(&n) })
	}
	for _, n := range nodes {
		if held[n.Name].GatewayID != 0 && !slices.Contains(names, n.Name) && len(names) < identity.MaxGateways {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// settled reports whether each of the gateways has its id and a key.
func settled(names []string, existing []v1alpha1.FabricNode) bool {
	for _, name := range names {
		if !slices.ContainsFunc(existing, func(n v1alpha1.FabricNode) bool {
			return n.Name == name && n.Spec.GatewayID != 0 && len(n.Status.Lanes) > 0
		}) {
			return false
		}
	}
	return true
}

// retiring reports whether a ready node is a gateway that should not be one any
// more, while all that should be are there.
func retiring(in Input) bool {
	nodes, held := eligible(in.Nodes), map[string]v1alpha1.FabricNodeSpec{}
	for i := range in.Existing {
		held[in.Existing[i].Name] = in.Existing[i].Spec
	}
	names := gateways(nodes, held, in)
	return len(names) > 0 && settled(names, in.Existing) && slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		return Ready(&n) && held[n.Name].GatewayID != 0 && !slices.Contains(names, n.Name)
	})
}

// gateways returns the names of the nodes that terminate tunnels, sorted: those
// that the selector names or, without one, a single node.
func gateways(nodes []corev1.Node, held map[string]v1alpha1.FabricNodeSpec, in Input) []string {
	if len(in.Gateways.Selector) == 0 {
		if name := automatic(nodes, held, in.Now); name != "" {
			return []string{name}
		}
		return nil
	}
	var names []string
	selector := labels.SelectorFromSet(in.Gateways.Selector)
	for _, n := range nodes {
		if selector.Matches(labels.Set(n.Labels)) {
			names = append(names, n.Name)
		}
	}
	// A gateway that the record has no place for would be one that no peer knows.
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(min(1, held[b].GatewayID), min(1, held[a].GatewayID))
	})
	names = names[:min(len(names), identity.MaxGateways)]
	slices.Sort(names)
	return names
}

// automatic chooses one gateway: the present one unless its node is gone or has
// not been ready for long, else a ready node, workers first, in order of names.
func automatic(nodes []corev1.Node, held map[string]v1alpha1.FabricNodeSpec, now time.Time) string {
	rank := func(n *corev1.Node) int {
		ready, since := readySince(n)
		_, controlPlane := n.Labels[controlPlaneLabel]
		switch {
		case held[n.Name].GatewayID != 0 && (ready || now.Sub(since) < gatewayGrace):
			return 0
		case ready && !n.Spec.Unschedulable && !controlPlane:
			return 1
		case ready:
			return 2
		case held[n.Name].GatewayID != 0:
			return 3
		default:
			return 4
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	best := slices.MinFunc(nodes, func(a, b corev1.Node) int { return cmp.Compare(rank(&a), rank(&b)) })
	return best.Name
}

// readySince returns whether the node is ready and since when that is so.
func readySince(n *corev1.Node) (bool, time.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, n.CreationTimestamp.Time
}

// Ready reports whether the kubelet of the node says so.
func Ready(n *corev1.Node) bool {
	ready, _ := readySince(n)
	return ready
}

// assignIDs gives each gateway an id. An id that any FabricNode holds now is
// not given to another in the same turn, so that a peer sees the new gateway
// beside the old one.
func assignIDs(gateways []string, existing []v1alpha1.FabricNode) map[string]int32 {
	out, used := map[string]int32{}, map[int32]bool{}
	for i := range existing {
		id := existing[i].Spec.GatewayID
		if id < 1 || id > maxGatewayID || used[id] {
			continue
		}
		used[id] = true
		if slices.Contains(gateways, existing[i].Name) {
			out[existing[i].Name] = id
		}
	}
	for _, name := range gateways {
		for id := int32(1); out[name] == 0 && id <= maxGatewayID; id++ {
			if !used[id] {
				used[id], out[name] = true, id
			}
		}
	}
	return out
}
