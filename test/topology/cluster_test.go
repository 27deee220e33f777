package topology

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Indexes of networks, the same in both clusters.
const (
	podNetwork  = 1
	nodeNetwork = 2
)

// Every cluster has the same networks.
const (
	podCIDR  = v1alpha1.CIDR("10.244.0.0/16")
	nodeCIDR = v1alpha1.CIDR("100.64.0.0/20")
)

// cluster is a set of nodes on one network behind a router, and the directory
// of objects that its agents read.
type cluster struct {
	id        string
	number    int // 1, 2: its network is 192.168.<number>.0/24
	mtu       int
	nat       bool
	vni       int
	key       ed25519.PrivateKey
	identity  v1alpha1.Identity
	directory string
	router    namespace
	nodes     []*node

	config   v1alpha1.FabricConfig
	neighbor v1alpha1.Neighbor
}

// prefixes of one network of a neighbor: as we see it, and as the tunnel
// carries it.
type prefixes struct {
	view, wire v1alpha1.CIDR
}

// names are what one cluster calls the networks of the other.
type names struct {
	pods, nodes prefixes
}

func newCluster(t *testing.T, id string, number, mtu int) *cluster {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	directory, err := os.MkdirTemp("", prefix)
	require.NoError(t, err)
	c := &cluster{
		id: id, number: number, mtu: mtu, vni: 70000 + number, key: key,
		identity:  identity.Fingerprint(key.Public().(ed25519.PublicKey)),
		directory: directory, router: newNamespace(t, id+"-router"),
	}
	c.router.sysctl(t, "net/ipv4/ip_forward", "1")
	c.router.ip(t, "link add lan type bridge")
	c.router.ip(t, fmt.Sprintf("addr add %s/24 dev lan", c.host(1)))
	c.router.ip(t, "link set lan up")
	return c
}

// host address in the cluster's network.
func (c *cluster) host(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 168, byte(c.number), byte(number)})
}

// pathMTU is what this cluster's side of every path carries: the lane over its
// underlay, the overlay carries more.
func (c *cluster) pathMTU() int { return (c.mtu - 60) / 16 * 16 }

// connect the routers of two clusters. A packet may have mtu bytes between them.
func connect(t *testing.T, a, b *cluster, mtu int) {
	t.Helper()
	ip(t, fmt.Sprintf("link add wan netns %s mtu %d type veth peer name wan netns %s mtu %d", a.router.name, mtu, b.router.name, mtu))
	for i, c := range []*cluster{a, b} {
		other := []*cluster{b, a}[i]
		c.router.ip(t, fmt.Sprintf("addr add 172.31.0.%d/30 dev wan", 1+i))
		c.router.ip(t, "link set wan up")
		c.router.ip(t, fmt.Sprintf("route add 192.168.%d.0/24 via 172.31.0.%d", other.number, 2-i))
	}
}

// masquerade hides the cluster behind its router's address, from a port on.
func (c *cluster) masquerade(t *testing.T, port int) {
	t.Helper()
	c.router.nft(t, fmt.Sprintf(`table ip nat
		delete table ip nat
		table ip nat {
			chain out {
				type nat hook postrouting priority 100;
				oifname "wan" ip protocol udp masquerade to :%d-%d
				oifname "wan" masquerade
			}
		}`, port, port+99))
}

// connectNodes gives each node a route to the pods of the others.
func (c *cluster) connectNodes(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		for _, m := range c.nodes {
			if n != m {
				n.ip(t, fmt.Sprintf("route add 10.244.%d.0/24 via %s", m.number, m.underlay))
			}
		}
	}
}

// write puts objects into a file of the directory, by rename.
func (c *cluster) write(t *testing.T, file string, objects ...any) {
	t.Helper()
	var text []byte
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		require.NoError(t, err)
		text = append(append(text, "---\n"...), document...)
	}
	path := filepath.Join(c.directory, file)
	require.NoError(t, os.WriteFile(path+".new", text, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func meta(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind},
		metav1.ObjectMeta{Name: name, UID: types.UID(kind + "/" + name), Generation: 1}
}

// writeObjects writes what the controller would: all but the Neighbor.
func (c *cluster) writeObjects(t *testing.T) {
	t.Helper()
	c.config = v1alpha1.FabricConfig{
		Spec: v1alpha1.FabricConfigSpec{ClusterID: v1alpha1.ClusterID(c.id)},
		Status: v1alpha1.FabricConfigStatus{Identity: c.identity, Networks: []v1alpha1.OwnNetwork{
			{Name: v1alpha1.PodNetworkName, Kind: v1alpha1.NetworkPod, CIDR: podCIDR, Index: podNetwork},
			{Name: v1alpha1.NodeNetworkName, Kind: v1alpha1.NetworkNode, CIDR: nodeCIDR, Index: nodeNetwork},
		}},
	}
	c.config.TypeMeta, c.config.ObjectMeta = meta("FabricConfig", v1alpha1.FabricConfigName)
	c.write(t, "config.yaml", c.config)
	c.write(t, "secret.yaml", corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OverlaySecretName, Namespace: v1alpha1.SystemNamespace},
		Data:       map[string][]byte{v1alpha1.OverlaySecretKey: fmt.Append(nil, c.vni)},
	})
	var nodes, pods []any
	for _, n := range c.nodes {
		object := v1alpha1.FabricNode{Spec: v1alpha1.FabricNodeSpec{FabricAddress: n.fabric.String(), GatewayID: n.gateway}}
		object.TypeMeta, object.ObjectMeta = meta("FabricNode", n.name)
		nodes = append(nodes, object)
		for _, p := range n.pods {
			pods = append(pods, corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Name: p.name, Namespace: "default"},
				Spec:       corev1.PodSpec{NodeName: n.name},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: p.address.String()}}},
			})
		}
	}
	c.write(t, "nodes.yaml", nodes...)
	c.write(t, "pods.yaml", pods...)
}

// gatewayNode is the cluster's one gateway.
func (c *cluster) gatewayNode() *node { return c.nodes[0] }

// endpoints that the cluster publishes: none behind NAT.
func (c *cluster) endpoints() []string {
	if c.nat {
		return nil
	}
	return []string{c.gatewayNode().underlay.String()}
}

// lane waits for the gateway's agent to publish its key.
func (c *cluster) lane(t *testing.T) v1alpha1.PeerLane {
	t.Helper()
	g := c.gatewayNode()
	var lanes []v1alpha1.LaneStatus
	g.eventually(t, "published a lane", func() bool {
		if status := g.status(t); status != nil {
			lanes = status.Lanes
		}
		return len(lanes) == 1
	})
	return v1alpha1.PeerLane{Port: lanes[0].Port, PublicKey: lanes[0].PublicKey}
}

// peer makes the Neighbor for the other cluster. ours are our names of its
// networks, theirs its names of ours.
func (c *cluster) peer(t *testing.T, other *cluster, ours, theirs names) {
	t.Helper()
	row := func(side v1alpha1.RowSide, origin, network int32, local, wire v1alpha1.CIDR) v1alpha1.Row {
		return v1alpha1.Row{Side: side, OwnGateway: 1, RemoteGateway: 1, OriginIndex: origin, NetworkIndex: network, Local: local, Wire: wire}
	}
	const index = 7 // of the other cluster
	c.neighbor = v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{
		ClusterID: v1alpha1.ClusterID(other.id), Identity: other.identity, ClusterIndex: index,
		Peers: []v1alpha1.NeighborPeer{{
			GatewayID: 1, ChannelAddress: identity.ChannelAddress(other.identity, 1).String(),
			Endpoints: other.endpoints(), Lanes: []v1alpha1.PeerLane{other.lane(t)},
		}},
		Networks: []v1alpha1.ViewNetwork{
			{Name: v1alpha1.PodNetworkName, Kind: v1alpha1.NetworkPod, Index: podNetwork, Original: podCIDR, Local: ours.pods.view},
			{Name: v1alpha1.NodeNetworkName, Kind: v1alpha1.NetworkNode, Index: nodeNetwork, Original: nodeCIDR, Local: ours.nodes.view},
		},
		Rows: []v1alpha1.Row{
			row(v1alpha1.RowOurs, index, podNetwork, ours.pods.view, ours.pods.wire),
			row(v1alpha1.RowOurs, index, nodeNetwork, ours.nodes.view, ours.nodes.wire),
			row(v1alpha1.RowTheirs, 0, podNetwork, podCIDR, theirs.pods.wire),
			row(v1alpha1.RowTheirs, 0, nodeNetwork, nodeCIDR, theirs.nodes.wire),
		},
		MTU:    int32(other.pathMTU()),
		Access: v1alpha1.NeighborAccess{Pods: v1alpha1.PodAccessAll},
	}}
	c.neighbor.TypeMeta, c.neighbor.ObjectMeta = meta("Neighbor", other.id)
	c.write(t, "neighbor.yaml", c.neighbor)
}

// grant changes the neighbor's access and waits until every node has it.
func (c *cluster) grant(t *testing.T, access v1alpha1.PodAccess) {
	t.Helper()
	c.neighbor.Generation++
	c.neighbor.Spec.Access.Pods = access
	c.write(t, "neighbor.yaml", c.neighbor)
	c.awaitApplied(t)
}

// awaitApplied waits until every node reports the present Neighbor.
func (c *cluster) awaitApplied(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		n.eventually(t, "applied the neighbor", func() bool {
			status := n.status(t)
			return status != nil && len(status.Applied) == 1 && status.Applied[0].Generation == c.neighbor.Generation
		})
	}
}

// awaitUp waits until the probes of every node are answered.
func (c *cluster) awaitUp(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		n.eventually(t, "had its probes answered", func() bool {
			values, err := n.metrics()
			if err != nil {
				return false
			}
			if n.gateway != 0 {
				return values[fmt.Sprintf(`weft_link_up{neighbor=%q,own_gateway="1",remote_gateway="1"}`, c.neighbor.Name)] == 1
			}
			return values[fmt.Sprintf(`weft_node_up{node=%q}`, c.gatewayNode().name)] == 1
		})
	}
}

// fabric is two clusters that are peers.
type fabric struct {
	t    *testing.T // the processes live as long as this test
	a, b *cluster
	// aNames is what cluster a calls the networks of b, bNames the reverse.
	aNames, bNames names
}

// options of a fabric.
type options struct {
	bMTU int  // of the underlay in b, in bytes; in a it is 1500
	nat  bool // b is behind a source NAT
	// wanMTU of the network between the clusters, in bytes; 0: 1500.
	wanMTU int
}

// newFabric brings up two clusters with one gateway, one plain node and a pod
// on each.
func newFabric(t *testing.T, o options, aNames, bNames names) *fabric {
	t.Helper()
	started := time.Now()
	f := &fabric{t: t, a: newCluster(t, "a", 1, 1500), b: newCluster(t, "b", 2, o.bMTU), aNames: aNames, bNames: bNames}
	t.Cleanup(func() { require.NoError(t, sweepNamespaces()) })
	connect(t, f.a, f.b, cmp.Or(o.wanMTU, 1500))
	if f.b.nat = o.nat; o.nat {
		f.b.masquerade(t, 40000)
		// Nobody outside has a route to what is behind a NAT.
		f.a.router.ip(t, "route delete 192.168.2.0/24")
	}
	for _, c := range []*cluster{f.a, f.b} {
		for number, gateway := range []int32{1, 0} {
			c.newNode(t, number+1, gateway).newPod(t)
		}
		c.connectNodes(t)
		c.writeObjects(t)
		for _, n := range c.nodes {
			n.startAgent(t)
		}
	}
	f.a.peer(t, f.b, aNames, bNames)
	f.b.peer(t, f.a, bNames, aNames)
	for _, c := range []*cluster{f.a, f.b} {
		c.awaitApplied(t)
		c.awaitUp(t)
		for _, n := range c.nodes {
			require.Positive(t, n.changes(), "the agent of %s tells what it changes; later tests count on it", n.name)
		}
	}
	t.Logf("two clusters are up after %s", time.Since(started).Round(time.Millisecond))
	return f
}

// seenFrom translates an address of one cluster into the other's local view,
// by the arithmetic of prefixes alone.
func seenFrom(address netip.Addr, n names) netip.Addr {
	for original, p := range map[v1alpha1.CIDR]prefixes{podCIDR: n.pods, nodeCIDR: n.nodes} {
		if o := netip.MustParsePrefix(string(original)); o.Contains(address) {
			view, host := netip.MustParsePrefix(string(p.view)), address.As4()
			out := view.Addr().As4()
			for bit := o.Bits(); bit < 32; bit++ {
				mask := byte(0x80) >> (bit % 8)
				out[bit/8] |= host[bit/8] & mask
			}
			return netip.AddrFrom4(out)
		}
	}
	panic(fmt.Sprintf("%s is in no network", address))
}
