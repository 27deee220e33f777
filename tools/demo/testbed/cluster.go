package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// poll is how often a condition is looked at while it is waited for.
const poll = 200 * time.Millisecond

// Cluster is a running cluster of the lab, by its API server.
type Cluster struct {
	client.Client
	// Logs reads container logs.
	Logs clientgo.Interface
	// Name in the lab: a, b, ...
	Name string
	// Kubeconfig file that leads to it.
	Kubeconfig string

	lab Lab
}

// Open returns a client of a cluster of the lab.
func (l Lab) Open(ctx context.Context, name string) (*Cluster, error) {
	out, err := output(ctx, nil, l.Program("lab"), "kubeconfig", name, "--path")
	if err != nil {
		return nil, err
	}
	// Errors are returned; the client's library has nothing else to say here.
	log.SetLogger(logr.Discard())
	path := strings.TrimSpace(string(out))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of cluster %s: %w", name, err)
	}
	config.QPS, config.Burst, config.Timeout = 50, 100, 30*time.Second
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme, mcsv1beta1.Install} {
		if err := add(kinds); err != nil {
			return nil, fmt.Errorf("register the API's kinds: %w", err)
		}
	}
	api, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, fmt.Errorf("reach the API server of cluster %s: %w", name, err)
	}
	logs, err := clientgo.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server of cluster %s: %w", name, err)
	}
	return &Cluster{Client: api, Logs: logs, Name: name, Kubeconfig: path, lab: l}, nil
}

// Nodes lists the names of the cluster's nodes, gateways first.
func (c *Cluster) Nodes(ctx context.Context) (gateways, plain []string, err error) {
	var nodes v1alpha1.FabricNodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, nil, fmt.Errorf("list the fabric nodes of cluster %s: %w", c.Name, err)
	}
	for _, n := range nodes.Items {
		if n.Spec.GatewayID != 0 {
			gateways = append(gateways, n.Name)
		} else {
			plain = append(plain, n.Name)
		}
	}
	return gateways, plain, nil
}

// NodeAddress is the underlay address of a node.
func (c *Cluster) NodeAddress(ctx context.Context, name string) (netip.Addr, error) {
	var node corev1.Node
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return netip.Addr{}, fmt.Errorf("read node %s: %w", name, err)
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return netip.ParseAddr(a.Address)
		}
	}
	return netip.Addr{}, fmt.Errorf("read node %s: it has no internal address", name)
}

// Remap translates an address of a foreign cluster into this cluster's view.
func (c *Cluster) Remap(ctx context.Context, foreign string, address netip.Addr) (netip.Addr, error) {
	var fcl v1alpha1.ForeignCluster
	if err := c.Get(ctx, client.ObjectKey{Name: foreign}, &fcl); err != nil {
		return netip.Addr{}, fmt.Errorf("read the foreign cluster %s of cluster %s: %w", foreign, c.Name, err)
	}
	for _, n := range fcl.Status.Networks {
		original, err := netip.ParsePrefix(string(n.Original))
		if err != nil || !original.Contains(address) {
			continue
		}
		remapped, err := netip.ParsePrefix(string(n.Remapped))
		if err != nil {
			return netip.Addr{}, fmt.Errorf("read network %s of %s: %w", n.Name, foreign, err)
		}
		return move(address, remapped), nil
	}
	return netip.Addr{}, fmt.Errorf("cluster %s has no view of %s in %s: it is in none of the networks in the status of foreigncluster/%s",
		c.Name, address, foreign, foreign)
}

// move puts the host bits of address into prefix.
func move(address netip.Addr, prefix netip.Prefix) netip.Addr {
	host, network := address.As4(), prefix.Masked().Addr().As4()
	for i := range 4 {
		bits := min(max(prefix.Bits()-8*i, 0), 8)
		mask := byte(0xff << (8 - bits))
		network[i] |= host[i] &^ mask
	}
	return netip.AddrFrom4(network)
}

// WaitConnected waits until a foreign cluster is Connected.
func (c *Cluster) WaitConnected(ctx context.Context, foreign string, limit time.Duration) error {
	last := "it does not exist"
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		var fcl v1alpha1.ForeignCluster
		if err := c.Get(ctx, client.ObjectKey{Name: foreign}, &fcl); err != nil {
			last = err.Error()
			return false, nil
		}
		last = describeConditions(fcl)
		return meta.IsStatusConditionTrue(fcl.Status.Conditions, v1alpha1.ConditionConnected), nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for foreigncluster/%s of cluster %s to be Connected: %s (try `weftctl status --kubeconfig %s`)",
			limit, foreign, c.Name, last, c.Kubeconfig)
	}
	return nil
}

func describeConditions(fcl v1alpha1.ForeignCluster) string {
	var parts []string
	for _, condition := range fcl.Status.Conditions {
		parts = append(parts, fmt.Sprintf("%s=%s (%s: %s)", condition.Type, condition.Status, condition.Reason, condition.Message))
	}
	if parts == nil {
		return "no condition yet"
	}
	return strings.Join(parts, ", ")
}
