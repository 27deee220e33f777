package node

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// weftDevice matches the devices that Weft makes: the overlay and the lanes.
var weftDevice = regexp.MustCompile(`^weft(-vx|[0-9]+)$`)

// Discover reads the facts of the node whose network namespace the caller is
// in. underlay, if valid, is the address to use; otherwise it is the one that
// the default route leaves from. table is Weft's own route table, whose routes
// occupy nothing.
func Discover(underlay netip.Addr, table int) (Facts, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return Facts{}, fmt.Errorf("list devices: %w", err)
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return Facts{}, fmt.Errorf("list addresses: %w", err)
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return Facts{}, fmt.Errorf("list routes: %w", err)
	}
	if !underlay.IsValid() {
		if underlay, err = defaultAddress(routes, addresses); err != nil {
			return Facts{}, err
		}
	}
	facts := Facts{Underlay: underlay, Occupied: occupied(links, addresses, routes, table)}
	for _, a := range addresses {
		if ip, ok := netip.AddrFromSlice(a.IP.To4()); !ok || ip != underlay {
			continue
		}
		for _, l := range links {
			if attrs := l.Attrs(); attrs.Index == a.LinkIndex {
				facts.UnderlayDevice, facts.UnderlayMTU = attrs.Name, attrs.MTU
				return facts, nil
			}
		}
	}
	return Facts{}, fmt.Errorf("no device of this node has the underlay address %s; set --underlay-address to one of the node's IPv4 addresses", underlay)
}

// defaultAddress returns the address that the default route leaves from.
func defaultAddress(routes []netlink.Route, addresses []netlink.Addr) (netip.Addr, error) {
	for _, r := range routes {
		if r.Table != unix.RT_TABLE_MAIN || prefixOf(r.Dst).Bits() > 0 || r.Type != unix.RTN_UNICAST {
			continue
		}
		if src, ok := netip.AddrFromSlice(r.Src.To4()); ok {
			return src, nil
		}
		for _, a := range addresses {
			ip, ok := netip.AddrFromSlice(a.IP.To4())
			if ok && a.LinkIndex == r.LinkIndex && a.Scope == unix.RT_SCOPE_UNIVERSE {
				return ip, nil
			}
		}
	}
	return netip.Addr{}, errors.New("this node has no IPv4 default route to tell its underlay address from; set --underlay-address")
}

// occupied returns what is taken by addresses and routes that are not Weft's.
func occupied(links []netlink.Link, addresses []netlink.Addr, routes []netlink.Route, table int) []netip.Prefix {
	ours := map[int]bool{}
	for _, l := range links {
		if weftDevice.MatchString(l.Attrs().Name) {
			ours[l.Attrs().Index] = true
		}
	}
	var list []netip.Prefix
	for _, a := range addresses {
		if !ours[a.LinkIndex] {
			list = append(list, prefixOf(a.IPNet))
		}
	}
	for _, r := range routes {
		// The local table repeats the addresses.
		if r.Table != table && r.Table != unix.RT_TABLE_LOCAL && !ours[r.LinkIndex] {
			list = append(list, prefixOf(r.Dst))
		}
	}
	return compact(list, maxOccupied)
}
