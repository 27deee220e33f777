package topology

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// node is a machine of a cluster: a network namespace with an interface on the
// cluster's network, a bridge for its pods, and processes.
type node struct {
	namespace
	cluster  *cluster
	name     string // a1, a2: the node's name
	number   int
	gateway  int32 // id, 0 on plain nodes
	underlay netip.Addr
	fabric   netip.Addr
	pods     []*pod

	holder    int // process that keeps the mount namespace
	agent     *process
	wireguard *process
}

// pod is a network namespace behind a node's bridge.
type pod struct {
	namespace
	node    *node
	name    string
	address netip.Addr
}

// newNode connects a node to its cluster's router as a kubelet's machine with
// the bridge CNI would be: one /24 of the pod CIDR, ipMasq, strict rp_filter,
// and kube-proxy's drop of what connection tracking calls invalid.
func (c *cluster) newNode(t *testing.T, number int, gateway int32) *node {
	t.Helper()
	name := c.id + strconv.Itoa(number)
	n := &node{
		namespace: newNamespace(t, name), cluster: c, name: name, number: number, gateway: gateway,
		underlay: c.host(10 + number), fabric: netip.AddrFrom4([4]byte{100, 64, 0, byte(number)}),
	}
	ip(t, fmt.Sprintf("link add eth0 netns %s mtu %d type veth peer name %s netns %s mtu %d", n.namespace.name, c.mtu, name, c.router.name, c.mtu))
	c.router.ip(t, "link set "+name+" master lan up")
	n.ip(t, "link set eth0 up")
	n.ip(t, fmt.Sprintf("addr add %s/24 dev eth0", n.underlay))
	n.ip(t, fmt.Sprintf("route add default via %s", c.host(1)))
	n.ip(t, fmt.Sprintf("link add cni0 mtu %d type bridge", c.mtu))
	n.ip(t, fmt.Sprintf("addr add 10.244.%d.1/24 dev cni0", number))
	n.ip(t, "link set cni0 up")
	n.sysctl(t, "net/ipv4/ip_forward", "1")
	for _, device := range []string{"all", "default", "eth0", "cni0"} {
		n.sysctl(t, "net/ipv4/conf/"+device+"/rp_filter", "1")
	}
	n.nft(t, fmt.Sprintf(`table ip cni {
		chain out {
			type nat hook postrouting priority 100;
			ip saddr 10.244.%d.0/24 ip daddr != { 10.244.0.0/16, 224.0.0.0/4 } masquerade
		}
		counter invalid { }
		chain forward {
			type filter hook forward priority 0;
			ct state invalid counter name invalid drop
		}
	}`, number))
	n.hold(t)
	n.startWireguard(t)
	c.nodes = append(c.nodes, n)
	return n
}

// newPod makes a pod and tells the cluster of it.
func (n *node) newPod(t *testing.T) *pod {
	t.Helper()
	number := len(n.pods) + 1
	name := fmt.Sprintf("%s-p%d", n.name, number)
	p := &pod{namespace: newNamespace(t, name), node: n, name: name,
		address: netip.AddrFrom4([4]byte{10, 244, byte(n.number), byte(1 + number)})}
	ip(t, fmt.Sprintf("link add eth0 netns %s mtu %d type veth peer name veth%d netns %s mtu %d",
		p.namespace.name, n.cluster.mtu, number, n.namespace.name, n.cluster.mtu))
	n.ip(t, fmt.Sprintf("link set veth%d master cni0 up", number))
	p.ip(t, "link set eth0 up")
	p.ip(t, fmt.Sprintf("addr add %s/24 dev eth0", p.address))
	p.ip(t, fmt.Sprintf("route add default via 10.244.%d.1", n.number))
	n.pods = append(n.pods, p)
	return p
}

// startAgent starts the node's agent on the cluster's directory.
func (n *node) startAgent(t *testing.T) {
	t.Helper()
	n.agent = n.start(t, filepath.Join(binaries, "weft-agent"),
		"--node-name", n.name, "--directory", n.cluster.directory, "--underlay-address", n.underlay.String(), "--log-level", "debug")
}

func (n *node) startWireguard(t *testing.T) {
	t.Helper()
	n.wireguard = n.start(t, filepath.Join(binaries, "weft-wireguard"))
}

// status as the agent has written it last; nil if it has not.
func (n *node) status(t *testing.T) *v1alpha1.FabricNodeStatus {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.cluster.directory, "status", n.name+".yaml"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var object v1alpha1.FabricNode
	require.NoError(t, yaml.UnmarshalStrict(data, &object))
	return &object.Status
}

// eventually polls a condition and shows the agent's log if it never holds.
func (n *node) eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !await(20*time.Second, condition) {
		t.Fatalf("%s: never %s; its agent said at last:\n%s", n.name, what, n.agent.log.tail(30))
	}
}

// lane waits for the node's agent to publish its key.
func (n *node) lane(t *testing.T) v1alpha1.PeerLane {
	t.Helper()
	var lanes []v1alpha1.LaneStatus
	n.eventually(t, "published a lane", func() bool {
		if status := n.status(t); status != nil {
			lanes = status.Lanes
		}
		return len(lanes) == 1
	})
	return v1alpha1.PeerLane{Port: lanes[0].Port, PublicKey: lanes[0].PublicKey}
}

// awaitMetrics waits until the agent tells this value for all of the metrics.
func (n *node) awaitMetrics(t *testing.T, want float64, names ...string) {
	t.Helper()
	n.eventually(t, fmt.Sprintf("told %v for all of %v", want, names), func() bool {
		values, err := n.metrics()
		if err != nil {
			return false
		}
		for _, name := range names {
			if value, told := values[name]; !told || value != want {
				return false
			}
		}
		return true
	})
}

// client for HTTP to the node itself.
func (n *node) client() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
			err = n.do(func() error {
				conn, err = net.DialTimeout(network, address, time.Second)
				return err
			})
			return conn, err
		},
	}}
}

// metrics of the agent, by full name with labels.
func (n *node) metrics() (map[string]float64, error) {
	response, err := n.client().Get("http://127.0.0.1:9813/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	values := map[string]float64{}
	scanner := bufio.NewScanner(io.LimitReader(response.Body, 1<<22))
	for scanner.Scan() {
		if name, value, ok := strings.Cut(scanner.Text(), " "); ok && name != "#" {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				values[name] = v
			}
		}
	}
	return values, scanner.Err()
}

// metric returns one value, 0 if the agent does not tell it.
func (n *node) metric(t *testing.T, name string) float64 {
	t.Helper()
	values, err := n.metrics()
	require.NoError(t, err)
	return values[name]
}

// counted returns how many packets got a reason on this node, over all
// neighbors and hooks.
func (n *node) counted(t *testing.T, reason string) float64 {
	t.Helper()
	values, err := n.metrics()
	require.NoError(t, err)
	sum := 0.0
	for name, value := range values {
		if strings.HasPrefix(name, "weft_packets_total{") && strings.Contains(name, `reason="`+reason+`"`) {
			sum += value
		}
	}
	return sum
}

// drops returns what was dropped on this node so far, by reason.
func (n *node) drops(t *testing.T) map[string]float64 {
	t.Helper()
	values, err := n.metrics()
	require.NoError(t, err)
	drops := map[string]float64{}
	for _, reason := range bpfgen.Reasons() {
		if reason.Kind() != bpfgen.KindDrop {
			continue
		}
		for name, value := range values {
			if strings.HasPrefix(name, "weft_packets_total{") && strings.Contains(name, fmt.Sprintf("reason=%q", reason)) && value > 0 {
				drops[name] = value
			}
		}
	}
	return drops
}

var counterPattern = regexp.MustCompile(`packets ([0-9]+)`)

// firewalled returns the packets of a counter of Weft's nftables table.
func (n *node) firewalled(t *testing.T, counter string) int {
	t.Helper()
	return n.nftCounter(t, "inet weft "+counter)
}

// nftCounter reads a counter by family, table and name.
func (n *node) nftCounter(t *testing.T, counter string) int {
	t.Helper()
	list := append([]string{"--net=/run/netns/" + n.namespace.name, "--", "nft", "list", "counter"}, strings.Fields(counter)...)
	output := mustRun(t, "nsenter", list...)
	match := counterPattern.FindStringSubmatch(output)
	require.NotNil(t, match, output)
	packets, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return packets
}
