package testbed

import (
	"context"
	"fmt"
	"time"
)

// Weftctl runs the CLI against a cluster and returns what it printed.
func (c *Cluster) Weftctl(ctx context.Context, args ...string) ([]byte, error) {
	return output(ctx, nil, c.lab.Program("weftctl"), append(args, "--kubeconfig", c.Kubeconfig)...)
}

// Install installs Weft under the cluster's name as ID and waits until it is
// ready.
func (c *Cluster) Install(ctx context.Context, wait time.Duration, extra ...string) error {
	args := append([]string{"install", "--cluster-id", c.Name, "--image", WeftImage, "--wait", wait.String()}, extra...)
	return follow(ctx, c.lab.Progress, c.lab.Program("weftctl"), append(args, "--kubeconfig", c.Kubeconfig)...)
}

// Uninstall removes Weft from the cluster.
func (c *Cluster) Uninstall(ctx context.Context) error {
	return follow(ctx, c.lab.Progress, c.lab.Program("weftctl"), "uninstall", "--kubeconfig", c.Kubeconfig)
}

// HubGrants are the arguments of `weftctl peer`, run for the hub, that grant
// transit and introductions: the hub forwards between the peer and any other of
// its neighbors; the peer uses it as a hub, agrees to be introduced to others
// by it, and lets the pods of clusters that it knows through it open flows.
func HubGrants() []string {
	return []string{"--transit", "all", "--peer-use-as-hub", "--peer-introductions", "Allow", "--peer-introduced", "All"}
}

// Peer peers two clusters and waits until both are connected; extra are more
// arguments of `weftctl peer`, run for a.
func Peer(ctx context.Context, a, b *Cluster, extra ...string) error {
	args := append([]string{"peer", "--kubeconfig", a.Kubeconfig, "--peer-kubeconfig", b.Kubeconfig}, extra...)
	return follow(ctx, a.lab.Progress, a.lab.Program("weftctl"), args...)
}

// Unpeer ends the peering with a foreign cluster on this side.
func (c *Cluster) Unpeer(ctx context.Context, foreign string) error {
	_, err := c.Weftctl(ctx, "unpeer", foreign)
	return err
}

// Record prints the ForeignCluster that the other side applies.
func (c *Cluster) Record(ctx context.Context) ([]byte, error) {
	record, err := c.Weftctl(ctx, "record")
	if err != nil {
		return nil, err
	}
	if len(record) == 0 {
		return nil, fmt.Errorf("read the record of %s: weftctl printed nothing", c.Name)
	}
	return record, nil
}
