package fabric

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func network(name string, cidrs ...v1alpha1.CIDR) v1alpha1.Network {
	return v1alpha1.Network{Name: name, Kind: v1alpha1.NetworkPod, CIDRs: cidrs}
}

func TestExported(t *testing.T) {
	many := network("pods")
	for i := range 16 {
		many.CIDRs = append(many.CIDRs, v1alpha1.CIDR("10."+strconv.Itoa(i)+".0.0/16"))
	}
	node := netip.MustParsePrefix("100.64.0.0/20")
	tests := map[string]struct {
		spec     []v1alpha1.Network
		detected []netip.Prefix
		want     []string
		refused  string
	}{
		"detected":             {nil, prefixes("10.244.0.0/16", "fd00::/48"), []string{"pods 10.244.0.0/16", "nodes 100.64.0.0/20"}, ""},
		"set":                  {[]v1alpha1.Network{network("pods", "10.1.0.0/16")}, prefixes("10.244.0.0/16"), []string{"pods 10.1.0.0/16", "nodes 100.64.0.0/20"}, ""},
		"two CIDRs":            {[]v1alpha1.Network{network("pods", "10.1.0.0/16", "10.2.0.0/16")}, nil, []string{"pods 10.1.0.0/16", "pods 10.2.0.0/16", "nodes 100.64.0.0/20"}, ""},
		"nothing":              {nil, nil, nil, "weftctl install --pod-cidr"},
		"IPv6 only":            {nil, prefixes("fd00::/48"), nil, "could not be detected"},
		"overlap":              {[]v1alpha1.Network{network("pods", "10.0.0.0/8"), network("more", "10.3.0.0/16")}, nil, nil, "network more has CIDR 10.3.0.0/16, which overlaps 10.0.0.0/8"},
		"loopback":             {[]v1alpha1.Network{network("pods", "127.0.0.0/8")}, nil, nil, "127.0.0.0/8"},
		"everything":           {[]v1alpha1.Network{network("pods", "0.0.0.0/0")}, nil, nil, "0.0.0.0/0"},
		"IPv6 set":             {[]v1alpha1.Network{network("pods", "10.1.0.0/16", "fd00::/64")}, nil, nil, "fd00::/64, which is not IPv4"},
		"one address":          {[]v1alpha1.Network{network("pods", "10.1.0.7/32")}, nil, nil, "10.1.0.7/32 has a length of 32 bits"},
		"this network":         {[]v1alpha1.Network{network("pods", "0.1.0.0/16")}, nil, nil, "0.0.0.0/8, which is never routed"},
		"more than peers take": {[]v1alpha1.Network{network("pods", "10.0.0.0/8", "20.0.0.0/16")}, nil, nil, "16842752 addresses; peers take at most 16777216"},
		"a /8":                 {[]v1alpha1.Network{network("pods", "10.0.0.0/8")}, nil, []string{"pods 10.0.0.0/8", "nodes 100.64.0.0/20"}, ""},
		"a reserved name":      {[]v1alpha1.Network{network("nodes", "10.1.0.0/16")}, nil, nil, "spec.networks[nodes]"},
		"too many":             {[]v1alpha1.Network{many}, nil, nil, "16 CIDRs"},
		"a node network too":   {[]v1alpha1.Network{{Name: "mine", Kind: v1alpha1.NetworkNode, CIDRs: []v1alpha1.CIDR{"10.9.0.0/20"}}}, nil, nil, "spec.networks[mine]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Exported(&v1alpha1.FabricConfigSpec{Networks: test.spec}, test.detected, node)
			if test.refused != "" {
				require.ErrorContains(t, err, test.refused)
				return
			}
			require.NoError(t, err)
			var texts []string
			for _, n := range got {
				texts = append(texts, n.Name+" "+string(n.CIDR))
			}
			require.Equal(t, test.want, texts)
		})
	}
}

// A CIDR that comes to the own networks later must not cover what is in use.
func TestCollision(t *testing.T) {
	node := netip.MustParsePrefix("100.64.0.0/20")
	neighbors := []v1alpha1.Neighbor{{Spec: v1alpha1.NeighborSpec{Networks: []v1alpha1.ViewNetwork{{Local: "100.65.0.0/16"}}}}}
	neighbors[0].Name = "b"
	own := func(cidr v1alpha1.CIDR) []v1alpha1.OwnNetwork {
		return []v1alpha1.OwnNetwork{{Name: "nodes", Kind: v1alpha1.NetworkNode, CIDR: "100.64.0.0/20"}, {Name: "more", Kind: v1alpha1.NetworkPod, CIDR: cidr}}
	}
	require.NoError(t, collision(own("10.244.0.0/16"), node, neighbors))
	require.ErrorContains(t, collision(own("100.64.8.0/24"), node, neighbors), "overlaps the node network 100.64.0.0/20")
	require.ErrorContains(t, collision(own("100.65.4.0/22"), node, neighbors), "100.65.0.0/16, the local view of a network of cluster b")
}

// Property: over random changes an index never moves, is never shared, and is
// not given to another CIDR while a neighbor's rows name it.
func TestAssignIndexes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var current []v1alpha1.OwnNetwork
	for range 500 {
		inUse := map[int32]v1alpha1.CIDR{}
		for _, c := range current {
			if random.IntN(2) == 0 {
				inUse[c.Index] = c.CIDR
			}
		}
		var wanted []v1alpha1.OwnNetwork
		for i := range 10 {
			if random.IntN(2) == 0 {
				wanted = append(wanted, v1alpha1.OwnNetwork{Name: "n" + strconv.Itoa(i), CIDR: v1alpha1.CIDR("10." + strconv.Itoa(i) + ".0.0/16")})
			}
		}
		before := current
		if random.IntN(10) == 0 {
			current = nil // the status was lost
		}
		got := AssignIndexes(wanted, current, inUse)
		seen := map[int32]bool{}
		for _, n := range got {
			require.False(t, seen[n.Index])
			require.True(t, n.Index >= 1 && n.Index <= 255)
			seen[n.Index] = true
			if cidr, ok := inUse[n.Index]; ok {
				require.Equal(t, cidr, n.CIDR)
			}
			if i := slices.IndexFunc(before, func(o v1alpha1.OwnNetwork) bool { return o.CIDR == n.CIDR }); i >= 0 && (current != nil || inUse[before[i].Index] == n.CIDR) {
				require.Equal(t, before[i].Index, n.Index)
			}
		}
		current = got
	}
}

func TestAvoid(t *testing.T) {
	config := &v1alpha1.FabricConfig{
		Spec:   v1alpha1.FabricConfigSpec{ReservedCIDRs: []v1alpha1.CIDR{"10.50.0.0/16"}, Networks: []v1alpha1.Network{network("pods", "10.1.0.0/16")}},
		Status: v1alpha1.FabricConfigStatus{Networks: []v1alpha1.OwnNetwork{{CIDR: "100.64.0.0/20"}}},
	}
	nodes := []v1alpha1.FabricNode{{Status: v1alpha1.FabricNodeStatus{UnderlayAddress: "172.31.1.11", Occupied: []v1alpha1.CIDR{"0.0.0.0/0", "172.31.1.0/24"}}}}
	neighbors := []v1alpha1.Neighbor{{Spec: v1alpha1.NeighborSpec{
		Networks: []v1alpha1.ViewNetwork{{Local: "100.70.0.0/16"}},
		Rows:     []v1alpha1.Row{{Side: v1alpha1.RowOurs, Wire: "240.0.0.0/16"}, {Side: v1alpha1.RowTheirs, Wire: "240.9.0.0/16"}},
	}}}
	got := Avoid(config, nodes, neighbors, prefixes("10.96.0.0/16"))
	require.ElementsMatch(t, prefixes("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "10.96.0.0/16", "10.50.0.0/16", "10.1.0.0/16", "100.64.0.0/20", "172.31.1.0/24", "172.31.1.11/32", "100.70.0.0/16", "240.0.0.0/16"), got,
		"a default route occupies nothing, and what a peer chose is its own affair")
}

func TestMTU(t *testing.T) {
	node := func(mtu, gateway int32) v1alpha1.FabricNode {
		return v1alpha1.FabricNode{Spec: v1alpha1.FabricNodeSpec{GatewayID: gateway}, Status: v1alpha1.FabricNodeStatus{UnderlayMTU: mtu}}
	}
	require.EqualValues(t, 1440, MTU([]v1alpha1.FabricNode{node(1500, 1), node(9000, 0)}))
	require.EqualValues(t, 1400, MTU([]v1alpha1.FabricNode{node(1500, 1), node(1450, 0)}), "the overlay of a plain node may be the least")
	require.Zero(t, MTU([]v1alpha1.FabricNode{node(0, 1)}))
}

func TestKubeadm(t *testing.T) {
	got := fromKubeadm("networking:\n  podSubnet: 10.244.0.0/16, fd00::/48\n  serviceSubnet: 10.96.0.0/12\n")
	require.Equal(t, Detected{Pods: prefixes("10.244.0.0/16", "fd00::/48"), Services: prefixes("10.96.0.0/12")}, got)
	require.Zero(t, fromKubeadm("\t{"))
}
