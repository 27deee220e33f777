package plan

import (
	"encoding/base64"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/node"
)

// The fixture is the worked example's cluster A: pods 10.244/16, node network
// 100.64.0/20, gateway a1, plain node a2. Neighbor b has pods 10.244/16, seen
// as 100.70/16, and nodes, seen as 100.71.0/20. A chose other wire prefixes
// than its views for b; B chose 240.9/16 for A's pods.

const (
	identityA = v1alpha1.Identity("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	identityB = v1alpha1.Identity("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	identityC = v1alpha1.Identity("cccccccccccccccccccccccccccccccccccccccccccccccccccc")
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

// be is the map form of an address.
func be(s string) uint32 { return bpfgen.Address4(addr(s)) }

func key(fill byte) (out [32]byte) {
	for i := range out {
		out[i] = fill
	}
	return out
}

func fixture() Input {
	return Input{
		Node: "a1", VNI: 77,
		Config: &v1alpha1.FabricConfig{
			Spec: v1alpha1.FabricConfigSpec{
				WirePools: []v1alpha1.CIDR{"240.0.0.0/5"},
				Ports:     v1alpha1.PortsSpec{Lane: 51847, Overlay: 4797, Agent: 9810, Metrics: 9813},
				Routing:   v1alpha1.RoutingSpec{Table: 7077, RulePriority: 105},
			},
			Status: v1alpha1.FabricConfigStatus{Identity: identityA, Networks: []v1alpha1.OwnNetwork{
				{Name: "pods", Kind: v1alpha1.NetworkPod, CIDR: "10.244.0.0/16", Index: 1},
				{Name: "nodes", Kind: v1alpha1.NetworkNode, CIDR: "100.64.0.0/20", Index: 2},
			}},
		},
		Nodes: []v1alpha1.FabricNode{
			fabricNode("a1", "100.64.0.1", 1, "", 0, "10.244.1.5/32", "10.244.1.6/32"),
			fabricNode("a2", "100.64.0.2", 0, "192.168.0.2", 1500, "10.244.2.0/24"),
		},
		Neighbors: []v1alpha1.Neighbor{neighborB()},
		Facts:     node.Facts{Underlay: addr("192.168.0.1"), UnderlayDevice: "eth0", UnderlayMTU: 1500},
	}
}

func fabricNode(name, fabric string, gateway int32, underlay string, mtu int32, pods ...v1alpha1.CIDR) v1alpha1.FabricNode {
	return v1alpha1.FabricNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.FabricNodeSpec{FabricAddress: fabric, GatewayID: gateway},
		Status:     v1alpha1.FabricNodeStatus{UnderlayAddress: underlay, UnderlayMTU: mtu, PodPrefixes: pods},
	}
}

func neighborB() v1alpha1.Neighbor {
	return v1alpha1.Neighbor{
		ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "uid-b", Generation: 3},
		Spec: v1alpha1.NeighborSpec{
			ClusterID: "b", Identity: identityB, ClusterIndex: 5,
			Access: v1alpha1.NeighborAccess{Pods: v1alpha1.PodAccessAll},
			Peers: []v1alpha1.NeighborPeer{{
				GatewayID: 1, ChannelAddress: identity.ChannelAddress(identityB, 1).String(), Endpoints: []string{"203.0.113.7", "b.example"},
				Lanes: []v1alpha1.PeerLane{{Port: 51847, PublicKey: publicKey(0xb1)}},
			}},
			Networks: []v1alpha1.ViewNetwork{
				{Name: "pods", Kind: v1alpha1.NetworkPod, Index: 1, Original: "10.244.0.0/16", Local: "100.70.0.0/16"},
				{Name: "nodes", Kind: v1alpha1.NetworkNode, Index: 2, Original: "100.64.0.0/20", Local: "100.71.0.0/20"},
			},
			Rows: []v1alpha1.Row{
				{Side: v1alpha1.RowOurs, OwnGateway: 1, RemoteGateway: 1, OriginIndex: 5, NetworkIndex: 1, Local: "100.70.0.0/16", Wire: "240.1.0.0/16"},
				{Side: v1alpha1.RowOurs, OwnGateway: 1, RemoteGateway: 1, OriginIndex: 5, NetworkIndex: 2, Local: "100.71.0.0/20", Wire: "100.71.0.0/20"},
				{Side: v1alpha1.RowTheirs, OwnGateway: 1, RemoteGateway: 1, OriginIndex: 0, NetworkIndex: 1, Local: "10.244.0.0/16", Wire: "240.9.0.0/16"},
				{Side: v1alpha1.RowTheirs, OwnGateway: 1, RemoteGateway: 1, OriginIndex: 0, NetworkIndex: 2, Local: "100.64.0.0/20", Wire: "100.81.16.0/20"},
			},
		},
	}
}

func publicKey(fill byte) string {
	k := key(fill)
	return base64.StdEncoding.EncodeToString(k[:])
}

// built returns the plan of an input without problems.
func built(t *testing.T, in Input) Plan {
	t.Helper()
	p, problems := Build(in)
	require.Empty(t, problems)
	return p
}
