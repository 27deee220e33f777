package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
)

// resolve asks the cluster's DNS service, from its last node, for the API
// server's name: one answer proves CoreDNS, kube-proxy and the routes between nodes.
func resolve(ctx context.Context, c layout.Cluster) error {
	nodes := c.NodeList()
	from := nodes[len(nodes)-1].Namespace
	server := net.JoinHostPort(c.ServiceAddress(10).String(), "53")
	resolver := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (conn net.Conn, err error) {
		err = machine.InNamespace(from, func() (err error) {
			conn, err = net.DialTimeout("udp4", server, time.Second)
			return err
		})
		return conn, err
	}}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	const name = "kubernetes.default.svc.cluster.local."
	addresses, err := resolver.LookupNetIP(ctx, "ip4", name)
	if err != nil {
		return fmt.Errorf("ask %s: %w", server, err)
	}
	if want := c.ServiceAddress(1); len(addresses) != 1 || addresses[0] != want {
		return fmt.Errorf("%s answers %v for %s instead of %s", server, addresses, name, want)
	}
	return nil
}
