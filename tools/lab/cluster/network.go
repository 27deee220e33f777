package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"syscall"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
	"github.com/weft-fabric/weft/tools/lab/render"
	"github.com/weft-fabric/weft/tools/lab/supervise"
)

func newSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func clientAt(socket string) supervise.Client { return supervise.Client{Socket: socket} }

// network makes the cluster's router and the cables and routes of its nodes.
func (l *Lab) network(c layout.Cluster) error {
	if err := l.router(c); err != nil {
		return err
	}
	for _, n := range c.NodeList() {
		if err := l.cable(c, n); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) router(c layout.Cluster) error {
	if err := machine.EnsureNamespace(c.RouterNamespace()); err != nil {
		return err
	}
	if err := sysctls(c.RouterNamespace(), [][2]string{
		{"net.ipv4.ip_forward", "1"},
		// A link may be changed in one direction before the other.
		{"net.ipv4.conf.all.rp_filter", "0"}, {"net.ipv4.conf.default.rp_filter", "0"},
	}); err != nil {
		return err
	}
	router, err := machine.OpenNetwork(c.RouterNamespace())
	if err != nil {
		return err
	}
	defer router.Close()
	if err := errors.Join(
		router.Up("lo"), router.Bridge("nodes"),
		router.Address("nodes", netip.PrefixFrom(c.RouterAddress(), c.Underlay().Bits())),
		router.Address("lo", netip.PrefixFrom(c.ExternalAddress(), 32)),
	); err != nil {
		return err
	}
	if !c.NAT {
		return nil
	}
	rules, err := render.NAT(c)
	if err != nil {
		return err
	}
	return nft(c.RouterNamespace(), rules)
}

func (l *Lab) cable(c layout.Cluster, n layout.Node) error {
	if err := machine.EnsureNamespace(n.Namespace); err != nil {
		return err
	}
	values := [][2]string{{"net.ipv4.ip_forward", "1"}}
	if _, err := os.Stat(bridgeSysctls); err == nil {
		values = append(values, [2]string{"net.bridge.bridge-nf-call-iptables", "1"}, [2]string{"net.bridge.bridge-nf-call-ip6tables", "1"})
	}
	if err := sysctls(n.Namespace, values); err != nil {
		return err
	}
	router, err := machine.OpenNetwork(c.RouterNamespace())
	if err != nil {
		return err
	}
	defer router.Close()
	node, err := machine.OpenNetwork(n.Namespace)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := router.Cable(n.Device, n.Namespace, "eth0"); err != nil {
		return err
	}
	if err := errors.Join(
		router.Enslave(n.Device, "nodes"), node.Up("lo"),
		node.Address("eth0", netip.PrefixFrom(n.Address, c.Underlay().Bits())),
	); err != nil {
		return err
	}
	if err := node.Route(netip.MustParsePrefix("0.0.0.0/0"), c.RouterAddress(), "eth0"); err != nil {
		return err
	}
	for _, other := range c.NodeList() {
		if other.Name != n.Name {
			if err := node.Route(other.PodCIDR, other.Address, "eth0"); err != nil {
				return err
			}
		}
	}
	return nil
}

func sysctls(namespace string, values [][2]string) error {
	return machine.InNamespace(namespace, func() error {
		for _, v := range values {
			if err := machine.SetSysctl(v[0], v[1]); err != nil {
				return fmt.Errorf("in %s: %w", namespace, err)
			}
		}
		return nil
	})
}

// nft loads a rule file in a network namespace, whole or not at all.
func nft(namespace string, rules []byte) error {
	return machine.InNamespace(namespace, func() error {
		command := exec.Command("nft", "-f", "-")
		command.Stdin = bytes.NewReader(rules)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("load nftables rules in %s: %w: %s", namespace, err, bytes.TrimSpace(out))
		}
		return nil
	})
}
