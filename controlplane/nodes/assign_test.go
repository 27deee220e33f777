package nodes

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func node(name string, ready bool, age time.Duration, labels map[string]string) corev1.Node {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age)),
		}}},
	}
}

func fabricNode(name, address string, id int32) v1alpha1.FabricNode {
	return v1alpha1.FabricNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FabricNodeSpec{FabricAddress: address, GatewayID: id}}
}

func TestAssignFirstTime(t *testing.T) {
	in := Input{
		Nodes: []corev1.Node{
			node("a2", true, time.Hour, nil), node("a1", true, time.Hour, nil),
			node("win", true, time.Hour, map[string]string{corev1.LabelOSStable: "windows"}),
			node("vk", true, time.Hour, map[string]string{"type": "virtual-kubelet"}),
		},
		Network: netip.MustParsePrefix("100.64.0.0/20"), Now: now,
	}
	require.Equal(t, map[string]v1alpha1.FabricNodeSpec{
		"a1": {FabricAddress: "100.64.0.1", GatewayID: 1},
		"a2": {FabricAddress: "100.64.0.2"},
	}, Assign(in))
	in.Network = netip.Prefix{}
	require.Equal(t, v1alpha1.FabricNodeSpec{GatewayID: 1}, Assign(in)["a1"], "gateways need no network")
}

func TestAutomaticGateway(t *testing.T) {
	held := []v1alpha1.FabricNode{fabricNode("a2", "", 3)}
	controlPlane := map[string]string{"node-role.kubernetes.io/control-plane": ""}
	tests := map[string]struct {
		nodes []corev1.Node
		want  string
		id    int32
		also  int32 // id that a2 keeps beside it
	}{
		"the present one stays":        {[]corev1.Node{node("a1", true, time.Hour, nil), node("a2", true, time.Hour, nil)}, "a2", 3, 0},
		"a reboot moves nothing":       {[]corev1.Node{node("a1", true, time.Hour, nil), node("a2", false, time.Minute, nil)}, "a2", 3, 0},
		"a dead one is replaced":       {[]corev1.Node{node("a1", true, time.Hour, nil), node("a2", false, time.Hour, nil)}, "a1", 1, 3},
		"a deleted one is replaced":    {[]corev1.Node{node("a1", true, time.Hour, nil)}, "a1", 1, 0},
		"workers before control plane": {[]corev1.Node{node("a0", true, time.Hour, controlPlane), node("a1", true, time.Hour, nil)}, "a1", 1, 0},
		"all dead: stay":               {[]corev1.Node{node("a1", false, time.Hour, nil), node("a2", false, time.Hour, nil)}, "a2", 3, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Assign(Input{Nodes: test.nodes, Existing: held, Now: now})
			for node, spec := range got {
				if node == test.want {
					require.Equal(t, test.id, spec.GatewayID)
				} else if node == "a2" {
					require.Equal(t, test.also, spec.GatewayID)
				} else {
					require.Zero(t, spec.GatewayID, node)
				}
			}
			require.Contains(t, got, test.want)
		})
	}
}

func TestGatewaySelector(t *testing.T) {
	edge := map[string]string{"edge": "yes"}
	got := Assign(Input{
		Nodes:    []corev1.Node{node("a1", true, 0, edge), node("a2", true, 0, nil), node("a3", false, time.Hour, edge)},
		Gateways: v1alpha1.GatewaySpec{Selector: edge}, Now: now,
	})
	require.Equal(t, int32(1), got["a1"].GatewayID)
	require.Zero(t, got["a2"].GatewayID)
	require.Equal(t, int32(2), got["a3"].GatewayID)
}

// A gateway that shall not be one any more stays until the new ones have keys
// and peers have had time to learn them: they know only its own.
func TestGatewayRetires(t *testing.T) {
	edge := map[string]string{"edge": "yes"}
	old, fresh := fabricNode("a1", "", 1), fabricNode("a2", "", 0)
	in := Input{
		Nodes:    []corev1.Node{node("a1", true, time.Hour, nil), node("a2", true, time.Hour, edge)},
		Existing: []v1alpha1.FabricNode{old, fresh},
		Gateways: v1alpha1.GatewaySpec{Selector: edge}, Now: now, Drained: true,
	}
	ids := func() [2]int32 { got := Assign(in); return [2]int32{got["a1"].GatewayID, got["a2"].GatewayID} }
	require.Equal(t, [2]int32{1, 2}, ids(), "the new one has no key yet")
	require.False(t, retiring(in))
	in.Existing[1].Spec.GatewayID = 2
	require.Equal(t, [2]int32{1, 2}, ids())
	in.Existing[1].Status.Lanes = []v1alpha1.LaneStatus{{Name: "weft0"}}
	require.True(t, retiring(in))
	in.Drained = false
	require.Equal(t, [2]int32{1, 2}, ids(), "peers do not know yet")
	in.Drained = true
	require.Equal(t, [2]int32{0, 2}, ids())
	in.Nodes[0] = node("a1", false, time.Hour, nil)
	require.Equal(t, [2]int32{1, 2}, ids(), "when its node comes back, its tunnel is the one that comes up")
	in.Nodes[0] = node("a1", true, time.Hour, nil)
	in.Gateways.Selector = map[string]string{"edge": "typo"}
	require.Equal(t, [2]int32{1, 2}, ids(), "no replacement, no end")
}

// No more gateways than a record lists; those that are one stay.
func TestManyGateways(t *testing.T) {
	label := map[string]string{"gateway": "yes"}
	in := Input{Gateways: v1alpha1.GatewaySpec{Selector: label}, Now: now, Existing: []v1alpha1.FabricNode{fabricNode("z", "", 9)}}
	in.Nodes = append(in.Nodes, node("z", true, time.Hour, label))
	for i := range 20 {
		in.Nodes = append(in.Nodes, node(fmt.Sprintf("a%02d", i), true, time.Hour, label))
	}
	gateways := 0
	got := Assign(in)
	for _, spec := range got {
		if spec.GatewayID != 0 {
			gateways++
		}
	}
	require.Equal(t, identity.MaxGateways, gateways)
	require.EqualValues(t, 9, got["z"].GatewayID)
	require.Zero(t, got["a19"].GatewayID)
}

// Property: over random joins and departures no two nodes share an address or
// a gateway id, nobody has host 0, and who stays keeps what it had.
func TestAssignIsStableAndUnique(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	network := netip.MustParsePrefix("100.64.0.0/28")
	edge := map[string]string{"edge": "yes"}
	var existing []v1alpha1.FabricNode
	for range 300 {
		var nodes []corev1.Node
		for i := range 15 {
			if random.IntN(3) > 0 {
				nodes = append(nodes, node(fmt.Sprintf("n%02d", i), true, 0, edge))
			}
		}
		got := Assign(Input{Nodes: nodes, Existing: existing, Gateways: v1alpha1.GatewaySpec{Selector: edge}, Network: network, Now: now})
		addresses, ids := map[string]bool{}, map[int32]bool{}
		for name, spec := range got {
			addr := netip.MustParseAddr(spec.FabricAddress)
			require.True(t, network.Contains(addr) && addr != network.Addr(), "%s has %s", name, addr)
			require.False(t, addresses[spec.FabricAddress] || ids[spec.GatewayID])
			addresses[spec.FabricAddress], ids[spec.GatewayID] = true, true
		}
		for _, old := range existing {
			if spec, ok := got[old.Name]; ok {
				require.Equal(t, old.Spec, spec)
			}
		}
		existing = nil
		for name, spec := range got {
			existing = append(existing, fabricNode(name, spec.FabricAddress, spec.GatewayID))
		}
	}
}

func TestFullNetwork(t *testing.T) {
	var nodes []corev1.Node
	for i := range 4 {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), true, 0, nil))
	}
	got := Assign(Input{Nodes: nodes, Network: netip.MustParsePrefix("100.64.0.0/30"), Now: now})
	require.Equal(t, "100.64.0.3", got["n2"].FabricAddress)
	require.Empty(t, got["n3"].FabricAddress)
}
