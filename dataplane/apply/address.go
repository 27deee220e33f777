package apply

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hostAddress returns the address with its full prefix length, or nothing.
func hostAddress(address netip.Addr) []netip.Prefix {
	if !address.IsValid() {
		return nil
	}
	return []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}
}

// ensureAddresses gives the device exactly these addresses of the family. It
// adds before it removes.
func (r *run) ensureAddresses(link netlink.Link, family int, want []netip.Prefix) error {
	name := link.Attrs().Name
	present, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, family) })
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", name, err)
	}
	missing := map[netip.Prefix]bool{}
	for _, prefix := range want {
		missing[prefix] = true
	}
	var surplus []netlink.Addr
	for _, address := range present {
		prefix := toPrefix(address.IPNet)
		if missing[prefix] {
			delete(missing, prefix)
		} else {
			surplus = append(surplus, address)
		}
	}
	var failures []error
	for prefix := range missing {
		// No duplicate detection: nobody else is on the link, and it would delay use.
		address := netlink.Addr{IPNet: toIPNet(prefix), Flags: unix.IFA_F_NODAD}
		if err := netlink.AddrAdd(link, &address); err != nil {
			failures = append(failures, fmt.Errorf("add address %s to %s: %w", prefix, name, err))
			continue
		}
		r.did("add", "address", fmt.Sprintf("%s on %s", prefix, name))
	}
	for _, address := range surplus {
		if err := netlink.AddrDel(link, &address); err != nil {
			failures = append(failures, fmt.Errorf("remove address %s from %s: %w", address.IPNet, name, err))
			continue
		}
		r.did("remove", "address", fmt.Sprintf("%s on %s", address.IPNet, name))
	}
	return errors.Join(failures...)
}

func toIPNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

// toPrefix returns the invalid prefix for nil.
func toPrefix(network *net.IPNet) netip.Prefix {
	if network == nil {
		return netip.Prefix{}
	}
	address, _ := netip.AddrFromSlice(network.IP)
	ones, _ := network.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), ones)
}

func toAddr(ip net.IP) netip.Addr {
	address, _ := netip.AddrFromSlice(ip)
	return address.Unmap()
}
