package machine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// MTU of every cable of the lab.
const MTU = 1500

// Network changes one network namespace. Every method is safe to repeat.
type Network struct {
	*netlink.Handle
	name string
}

// OpenNetwork returns access to the named namespace; Close ends it.
func OpenNetwork(namespace string) (*Network, error) {
	ns, err := netns.GetFromName(namespace)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", namespace, err)
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in namespace %s: %w", namespace, err)
	}
	return &Network{Handle: handle, name: namespace}, nil
}

// Up brings a device up.
func (n *Network) Up(device string) error {
	link, err := n.LinkByName(device)
	if err == nil {
		err = n.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("bring up %s in %s: %w", device, n.name, err)
	}
	return nil
}

// Has says whether the device exists and is up.
func (n *Network) Has(device string) bool {
	link, err := n.LinkByName(device)
	return err == nil && link.Attrs().Flags&net.FlagUp != 0
}

// Bridge makes a bridge.
func (n *Network) Bridge(device string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = device, MTU
	if err := n.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make bridge %s in %s: %w", device, n.name, err)
	}
	return n.Up(device)
}

// Enslave puts a device into a bridge.
func (n *Network) Enslave(device, bridge string) error {
	link, err := n.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", device, n.name, err)
	}
	master, err := n.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", bridge, n.name, err)
	}
	if err := n.LinkSetMaster(link, master); err != nil {
		return fmt.Errorf("put %s into bridge %s in %s: %w", device, bridge, n.name, err)
	}
	return nil
}

// Cable lays a veth pair from device in this namespace to peerDevice in another.
func (n *Network) Cable(device, peerNamespace, peerDevice string) error {
	peer, err := OpenNetwork(peerNamespace)
	if err != nil {
		return err
	}
	defer peer.Close()
	if _, err := n.LinkByName(device); err != nil {
		ns, err := netns.GetFromName(peerNamespace)
		if err != nil {
			return fmt.Errorf("open network namespace %s: %w", peerNamespace, err)
		}
		defer ns.Close()
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = device, MTU
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: peerDevice, PeerNamespace: netlink.NsFd(ns)}
		if err := n.LinkAdd(veth); err != nil {
			return fmt.Errorf("lay cable %s in %s to %s in %s: %w", device, n.name, peerDevice, peerNamespace, err)
		}
	}
	return errors.Join(n.Up(device), peer.Up(peerDevice))
}

// Address gives the device an address.
func (n *Network) Address(device string, prefix netip.Prefix) error {
	link, err := n.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", device, n.name, err)
	}
	if err := n.AddrReplace(link, &netlink.Addr{IPNet: ipNet(prefix)}); err != nil {
		return fmt.Errorf("give %s in %s the address %s: %w", device, n.name, prefix, err)
	}
	return nil
}

// Route replaces the route to a prefix. An empty device makes a blackhole,
// which drops without an ICMP error; an invalid gateway an on-link route.
func (n *Network) Route(to netip.Prefix, via netip.Addr, device string) error {
	route := &netlink.Route{Dst: ipNet(to), Family: unix.AF_INET}
	if device == "" {
		route.Type = unix.RTN_BLACKHOLE
	} else {
		link, err := n.LinkByName(device)
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", device, n.name, err)
		}
		route.LinkIndex = link.Attrs().Index
		if via.IsValid() {
			route.Gw = via.AsSlice()
			route.Flags = int(netlink.FLAG_ONLINK)
		} else {
			route.Scope = netlink.SCOPE_LINK
		}
	}
	if err := n.RouteReplace(route); err != nil {
		return fmt.Errorf("set the route to %s in %s: %w", to, n.name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
