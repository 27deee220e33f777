// Package layout is the lab's address and name plan: pure functions from what
// the user asked for to every name, address, folder and device of the lab.
package layout

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"time"
)

// Bounds of a lab. Addresses are 172.31.<cluster>.<10+node>.
const (
	MaxClusters = 26
	MaxNodes    = 32
)

// Defaults that every cluster shares, so that clusters collide unless told otherwise.
var (
	DefaultPodCIDR     = netip.MustParsePrefix("10.244.0.0/16")
	DefaultServiceCIDR = netip.MustParsePrefix("10.96.0.0/16")
)

// Spec is what a lab should be. It is kept in the state folder.
type Spec struct {
	Clusters  []Cluster       `json:"clusters"`
	ProxyMode string          `json:"proxyMode"`
	Links     map[string]Link `json:"links"`
}

// Cluster is one Kubernetes cluster of the lab. Its first node also runs the control plane.
type Cluster struct {
	Name        string       `json:"name"`
	Index       int          `json:"index"` // from 1
	Nodes       int          `json:"nodes"`
	PodCIDR     netip.Prefix `json:"podCIDR"`
	ServiceCIDR netip.Prefix `json:"serviceCIDR"`
	NAT         bool         `json:"nat"` // its nodes sit behind a source NAT
}

// Link is the state of the path between two clusters' routers.
type Link struct {
	RTT        time.Duration `json:"rttNanoseconds"` // 0: a plain veth
	Down       bool          `json:"down"`           // drops silently
	Generation int           `json:"generation"`     // which pair of TUN devices is in use
}

// String is for people.
func (l Link) String() string {
	state := "up"
	if l.Down {
		state = "down (drops silently)"
	}
	return fmt.Sprintf("round trip %s, %s", l.RTT, state)
}

// Options are the user's wishes for NewSpec.
type Options struct {
	Clusters, Nodes int
	PodCIDRs        map[string]string // by cluster name
	ServiceCIDRs    map[string]string
	NAT             []string
	ProxyMode       string
}

// NewSpec checks the options and fills in the defaults.
func NewSpec(o Options) (Spec, error) {
	if o.Clusters < 1 || o.Clusters > MaxClusters {
		return Spec{}, fmt.Errorf("%d clusters asked for; choose 1 to %d", o.Clusters, MaxClusters)
	}
	if o.Nodes < 1 || o.Nodes > MaxNodes {
		return Spec{}, fmt.Errorf("%d nodes asked for; choose 1 to %d", o.Nodes, MaxNodes)
	}
	switch o.ProxyMode {
	case "nftables", "iptables":
	default:
		return Spec{}, fmt.Errorf("proxy mode %q is unknown; choose nftables or iptables", o.ProxyMode)
	}
	spec := Spec{ProxyMode: o.ProxyMode, Links: map[string]Link{}}
	for i := 1; i <= o.Clusters; i++ {
		spec.Clusters = append(spec.Clusters, Cluster{
			Name: string(rune('a' + i - 1)), Index: i, Nodes: o.Nodes,
			PodCIDR: DefaultPodCIDR, ServiceCIDR: DefaultServiceCIDR,
		})
	}
	for name, cidr := range o.PodCIDRs {
		if err := setCIDR(&spec, name, cidr, func(c *Cluster) *netip.Prefix { return &c.PodCIDR }); err != nil {
			return Spec{}, err
		}
	}
	for name, cidr := range o.ServiceCIDRs {
		if err := setCIDR(&spec, name, cidr, func(c *Cluster) *netip.Prefix { return &c.ServiceCIDR }); err != nil {
			return Spec{}, err
		}
	}
	for _, name := range o.NAT {
		c, err := spec.find(name)
		if err != nil {
			return Spec{}, err
		}
		c.NAT = true
	}
	for i, a := range spec.Clusters {
		if err := a.check(); err != nil {
			return Spec{}, err
		}
		for _, b := range spec.Clusters[i+1:] {
			spec.Links[LinkName(a.Name, b.Name)] = Link{}
		}
	}
	return spec, nil
}

func setCIDR(spec *Spec, name, cidr string, field func(*Cluster) *netip.Prefix) error {
	c, err := spec.find(name)
	if err != nil {
		return err
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() {
		return fmt.Errorf("%q for cluster %s is not an IPv4 network; write it like 10.1.0.0/16", cidr, name)
	}
	*field(c) = prefix
	return nil
}

func (s *Spec) find(name string) (*Cluster, error) {
	for i := range s.Clusters {
		if s.Clusters[i].Name == name {
			return &s.Clusters[i], nil
		}
	}
	return nil, fmt.Errorf("there is no cluster %q; clusters are %s", name, s.names())
}

func (s *Spec) names() string {
	names := ""
	for i, c := range s.Clusters {
		if i > 0 {
			names += ", "
		}
		names += c.Name
	}
	return names
}

// Find returns the cluster of that name.
func (s *Spec) Find(name string) (Cluster, error) {
	c, err := s.find(name)
	if err != nil {
		return Cluster{}, err
	}
	return *c, nil
}

// FindNode returns the node of that name, for example a1.
func (s *Spec) FindNode(name string) (Node, error) {
	for _, c := range s.Clusters {
		for _, n := range c.NodeList() {
			if n.Name == name {
				return n, nil
			}
		}
	}
	return Node{}, fmt.Errorf("there is no node %q; nodes are named like %s1", name, s.Clusters[0].Name)
}

func (c Cluster) check() error {
	if c.PodCIDR.Bits() > 16 || c.PodCIDR.Bits() < 8 {
		return fmt.Errorf("pod CIDR %s of cluster %s has no room for a /24 per node; use a /8 to /16", c.PodCIDR, c.Name)
	}
	if c.ServiceCIDR.Bits() > 24 || c.ServiceCIDR.Bits() < 12 {
		return fmt.Errorf("service CIDR %s of cluster %s is out of bounds; use a /12 to /24", c.ServiceCIDR, c.Name)
	}
	underlay := netip.MustParsePrefix("172.30.0.0/15")
	for _, p := range []netip.Prefix{c.PodCIDR, c.ServiceCIDR} {
		if p.Overlaps(underlay) {
			return fmt.Errorf("%s of cluster %s overlaps the lab's underlay %s; choose another", p, c.Name, underlay)
		}
	}
	if c.PodCIDR.Overlaps(c.ServiceCIDR) {
		return fmt.Errorf("pod CIDR %s and service CIDR %s of cluster %s overlap; choose others", c.PodCIDR, c.ServiceCIDR, c.Name)
	}
	return nil
}

// Underlay is the subnet of the cluster's nodes.
func (c Cluster) Underlay() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 31, byte(c.Index), 0}), 24)
}

// RouterAddress is the nodes' default gateway.
func (c Cluster) RouterAddress() netip.Addr {
	return netip.AddrFrom4([4]byte{172, 31, byte(c.Index), 1})
}

// ExternalAddress is the router's address towards the other clusters, which
// never moves, so that a source NAT keeps it whatever device a link uses.
func (c Cluster) ExternalAddress() netip.Addr {
	return netip.AddrFrom4([4]byte{172, 30, 0, byte(c.Index)})
}

// RouterNamespace is the network namespace of the cluster's bridge and router.
func (c Cluster) RouterNamespace() string { return NamespacePrefix + c.Name + "-router" }

// NamespacePrefix begins the name of every network namespace of the lab.
const NamespacePrefix = "weft-lab-"

// APIServerURL is the API server's address on the underlay.
func (c Cluster) APIServerURL() string {
	return fmt.Sprintf("https://%s:6443", c.NodeList()[0].Address)
}

// ForwarderPort is the loopback port that leads to the cluster's API server.
func (c Cluster) ForwarderPort() int { return 26440 + c.Index }

// ServiceAddress is the n-th address of the service CIDR: 1 the API server, 10 DNS.
func (c Cluster) ServiceAddress(n int) netip.Addr {
	addr := c.ServiceCIDR.Addr()
	for range n {
		addr = addr.Next()
	}
	return addr
}

// Node is one Kubernetes node.
type Node struct {
	Cluster   string
	Index     int // from 1
	Name      string
	Namespace string
	Address   netip.Addr   // on the underlay
	PodCIDR   netip.Prefix // its /24
	// Device is the router's end of the node's cable.
	Device string
}

// ControlPlane says whether the node runs etcd, the API server and the controllers.
func (n Node) ControlPlane() bool { return n.Index == 1 }

// NodeList lists the nodes in order.
func (c Cluster) NodeList() []Node {
	base := c.PodCIDR.Addr().As4()
	nodes := make([]Node, 0, c.Nodes)
	for i := 1; i <= c.Nodes; i++ {
		name := fmt.Sprintf("%s%d", c.Name, i)
		nodes = append(nodes, Node{
			Cluster: c.Name, Index: i, Name: name, Namespace: NamespacePrefix + name, Device: "node-" + name,
			Address: netip.AddrFrom4([4]byte{172, 31, byte(c.Index), byte(10 + i)}),
			PodCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{base[0], base[1], byte(i - 1), 0}), 24),
		})
	}
	return nodes
}

// LinkName names the link between two clusters, whatever their order.
func LinkName(a, b string) string {
	if a > b {
		a, b = b, a
	}
	return a + "-" + b
}

// VethDevice is the name, in a router's namespace, of the plain cable to the other cluster.
func VethDevice(other string) string { return "to-" + other }

// TUNDevice is the name, in a router's namespace, of the emulated line to the other cluster.
func TUNDevice(other string, generation int) string {
	return fmt.Sprintf("wan-%s-%d", other, generation)
}

// WANDaemon names the process that emulates a link.
func WANDaemon(link string, generation int) string { return fmt.Sprintf("wan-%s-%d", link, generation) }

// Folders of the state folder.
type Folders struct{ Root string }

func (f Folders) State() string             { return filepath.Join(f.Root, "lab.json") }
func (f Folders) Lock() string              { return f.Root + ".lock" }
func (f Folders) CoreSocket() string        { return filepath.Join(f.Root, "core.sock") }
func (f Folders) CoreLogs() string          { return filepath.Join(f.Root, "logs") }
func (f Folders) Program() string           { return filepath.Join(f.Root, "lab") }
func (f Folders) Kube() string              { return filepath.Join(f.Root, "kube") }
func (f Folders) Inotify() string           { return filepath.Join(f.Root, "inotify-before") }
func (f Folders) PKI(cluster string) string { return filepath.Join(f.Root, "clusters", cluster, "pki") }
func (f Folders) Kubeconfig(cluster string) string {
	return filepath.Join(f.Root, cluster+".kubeconfig")
}
func (f Folders) Node(node string) string           { return filepath.Join(f.Root, "nodes", node) }
func (f Folders) NodeFile(node, name string) string { return filepath.Join(f.Node(node), name) }
func (f Folders) NodeLogs(node string) string       { return f.NodeFile(node, "logs") }
func (f Folders) NodeSocket(node string) string     { return f.NodeFile(node, "init.sock") }
