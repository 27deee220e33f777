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
	number    int // 1 to 3: its network is 192.168.<number>.0/24
	mtu       int
	nat       bool
	vni       int
	key       ed25519.PrivateKey
	identity  v1alpha1.Identity
	directory string
	router    namespace
	nodes     []*node

	config    v1alpha1.FabricConfig
	neighbors map[string]*v1alpha1.Neighbor // by name, the other cluster's id
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
		neighbors: map[string]*v1alpha1.Neighbor{},
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
	ip(t, fmt.Sprintf("link add wan-%s netns %s mtu %d type veth peer name wan-%s netns %s mtu %d", b.id, a.router.name, mtu, a.id, b.router.name, mtu))
	route(t, a, b)
}

// route between the clusters by the devices that connect them.
func route(t *testing.T, a, b *cluster) {
	t.Helper()
	for i, c := range []*cluster{a, b} {
		other, net := []*cluster{b, a}[i], 10*a.number+b.number
		c.router.ip(t, fmt.Sprintf("addr add 172.31.%d.%d/30 dev wan-%s", net, 1+i, other.id))
		c.router.ip(t, fmt.Sprintf("link set wan-%s up", other.id))
		c.router.ip(t, fmt.Sprintf("route add 192.168.%d.0/24 via 172.31.%d.%d", other.number, net, 2-i))
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
				oifname "wan-*" ip protocol udp masquerade to :%d-%d
				oifname "wan-*" masquerade
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

// gatewayNode is the cluster's first gateway.
func (c *cluster) gatewayNode() *node { return c.nodes[0] }

// gateways of the cluster, in the order of their ids.
func (c *cluster) gateways() (all []*node) {
	for _, n := range c.nodes {
		if n.gateway != 0 {
			all = append(all, n)
		}
	}
	return all
}

// bringUp starts a node with a pod and an agent for each gateway id; 0 is a
// plain node.
func (c *cluster) bringUp(t *testing.T, gateways ...int32) {
	t.Helper()
	for i, gateway := range gateways {
		c.newNode(t, i+1, gateway).newPod(t)
	}
	c.connectNodes(t)
	c.writeObjects(t)
	for _, n := range c.nodes {
		n.startAgent(t)
	}
}

// asPeers is what the cluster's gateways publish, as their peers are told.
func (c *cluster) asPeers(t *testing.T) (peers []v1alpha1.NeighborPeer) {
	t.Helper()
	for _, n := range c.gateways() {
		peer := v1alpha1.NeighborPeer{
			GatewayID: n.gateway, ChannelAddress: identity.ChannelAddress(c.identity, n.gateway).String(),
			Lanes: []v1alpha1.PeerLane{n.lane(t)},
		}
		if !c.nat { // nobody reaches what is behind one
			peer.Endpoints = []string{n.underlay.String()}
		}
		peers = append(peers, peer)
	}
	return peers
}

// index that the cluster gives to another one; no two clusters agree on any.
func (c *cluster) index(other *cluster) int32 { return int32(10*c.number + other.number) }

// know makes the Neighbor for another cluster, without any way to it.
func (c *cluster) know(other *cluster, ours names) *v1alpha1.Neighbor {
	n := &v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{
		ClusterID: v1alpha1.ClusterID(other.id), Identity: other.identity, ClusterIndex: c.index(other),
		Networks: []v1alpha1.ViewNetwork{
			{Name: v1alpha1.PodNetworkName, Kind: v1alpha1.NetworkPod, Index: podNetwork, Original: podCIDR, Local: ours.pods.view},
			{Name: v1alpha1.NodeNetworkName, Kind: v1alpha1.NetworkNode, Index: nodeNetwork, Original: nodeCIDR, Local: ours.nodes.view},
		},
		MTU:    int32(other.pathMTU()),
		Access: v1alpha1.NeighborAccess{Pods: v1alpha1.PodAccessAll},
	}}
	n.TypeMeta, n.ObjectMeta = meta("Neighbor", other.id)
	c.neighbors[other.id] = n
	return n
}

// tunnel is a pair of gateway ids: a row's link.
type tunnel struct{ own, remote int32 }

// rows of one tunnel for the networks of one cluster (by its index): what we
// call them, and what the tunnel does.
func (l tunnel) rows(side v1alpha1.RowSide, origin int32, n names) []v1alpha1.Row {
	row := func(network int32, p prefixes) v1alpha1.Row {
		return v1alpha1.Row{Side: side, OwnGateway: l.own, RemoteGateway: l.remote, OriginIndex: origin,
			NetworkIndex: network, Local: p.view, Wire: p.wire}
	}
	return []v1alpha1.Row{row(podNetwork, n.pods), row(nodeNetwork, n.nodes)}
}

// ofOurselves are the rows for the own networks under a neighbor's names.
func (l tunnel) ofOurselves(theirs names) []v1alpha1.Row {
	return l.rows(v1alpha1.RowTheirs, 0, names{prefixes{podCIDR, theirs.pods.wire}, prefixes{nodeCIDR, theirs.nodes.wire}})
}

// peer makes the Neighbor for the other cluster. ours are our names of its
// networks, theirs its names of ours.
func (c *cluster) peer(t *testing.T, other *cluster, ours, theirs names) {
	t.Helper()
	spec, link := &c.know(other, ours).Spec, tunnel{1, 1}
	spec.Peers = other.asPeers(t)
	spec.Rows = append(link.rows(v1alpha1.RowOurs, spec.ClusterIndex, ours), link.ofOurselves(theirs)...)
	c.writeNeighbors(t)
}

// writeNeighbors as they stand.
func (c *cluster) writeNeighbors(t *testing.T) {
	t.Helper()
	var all []any
	for _, n := range c.neighbors {
		all = append(all, n)
	}
	c.write(t, "neighbors.yaml", all...)
}

// change a Neighbor; its agents are told, not waited for.
func (c *cluster) change(t *testing.T, other *cluster, change func(*v1alpha1.NeighborSpec)) {
	t.Helper()
	n := c.neighbors[other.id]
	n.Generation++
	change(&n.Spec)
	c.writeNeighbors(t)
}

// grant changes the neighbor's access and waits until every node has it.
func (c *cluster) grant(t *testing.T, other *cluster, access v1alpha1.PodAccess) {
	t.Helper()
	c.change(t, other, func(spec *v1alpha1.NeighborSpec) { spec.Access.Pods = access })
	c.awaitApplied(t)
}

// awaitApplied waits until every node reports the present Neighbors.
func (c *cluster) awaitApplied(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		n.eventually(t, "applied the neighbors", func() bool {
			status := n.status(t)
			if status == nil || len(status.Applied) != len(c.neighbors) {
				return false
			}
			for _, applied := range status.Applied {
				if applied.Generation != c.neighbors[applied.Name].Generation {
					return false
				}
			}
			return true
		})
	}
}

// pathMetric is the full name of a metric of a path: to a cluster, via a
// neighbor, between two gateways.
func pathMetric(name, to, via string, link tunnel) string {
	return fmt.Sprintf("%s{cluster=%q,own_gateway=\"%d\",remote_gateway=\"%d\",via=%q}", name, to, link.own, link.remote, via)
}

// awaitUp waits until the probes of every node are answered: of tunnels to
// neighbors, and of plain nodes to their gateways.
func (c *cluster) awaitUp(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		var up []string
		for _, other := range c.neighbors {
			for _, peer := range other.Spec.Peers {
				if n.gateway != 0 {
					up = append(up, pathMetric("weft_path_up", other.Name, other.Name, tunnel{n.gateway, peer.GatewayID}))
				}
			}
		}
		for _, g := range c.gateways() {
			if g != n {
				up = append(up, fmt.Sprintf("weft_node_up{node=%q}", g.name))
			}
		}
		n.awaitMetrics(t, 1, up...)
	}
}

// fabric is two clusters that are peers, or that a third one joins.
type fabric struct {
	t    *testing.T // the processes live as long as this test
	a, b *cluster
	hub  *cluster // nil: a and b have a tunnel of their own alone
	// aNames is what cluster a calls the networks of b, bNames the reverse.
	aNames, bNames names
}

// clusters of the fabric.
func (f *fabric) clusters() []*cluster {
	if f.hub != nil {
		return []*cluster{f.a, f.b, f.hub}
	}
	return []*cluster{f.a, f.b}
}

// direct is the full name of a metric of the tunnel from one of a and b to the
// other.
func (f *fabric) direct(from *cluster, name string) string {
	to := f.b
	if from == f.b {
		to = f.a
	}
	return pathMetric(name, to.id, to.id, tunnel{1, 1})
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
		c.bringUp(t, 1, 0)
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
