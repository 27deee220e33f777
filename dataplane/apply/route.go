package apply

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// ensureRoutes adds and replaces routes, then the rule that leads to them.
func (r *run) ensureRoutes() {
	r.fail(r.ensureOverlayRoutes())
	r.fail(r.ensureChannelRoutes())
}

func (r *run) ensureOverlayRoutes() error {
	if r.plan.Overlay == nil || !r.walled {
		return nil
	}
	link, err := findDevice(r.plan.Overlay.Device)
	if err != nil || link == nil || link.Attrs().Flags&unix.IFF_UP == 0 {
		return err // why it is not up has been reported
	}
	if err := r.ensureNeighbor(link); err != nil {
		return err
	}
	present, err := ownRoutes(netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	var failures []error
	for _, want := range r.plan.Routing.Routes {
		failures = append(failures, r.ensureRoute(present, overlayRoute(link, r.plan.Routing.Table, want)))
	}
	failures = append(failures, r.ensureRule(), r.verifyRoute(link))
	return errors.Join(failures...)
}

func overlayRoute(link netlink.Link, table int, want plan.Route) netlink.Route {
	return netlink.Route{
		Family:    netlink.FAMILY_V4,
		Table:     table,
		Dst:       toIPNet(want.Destination.Masked()),
		Gw:        plan.OverlayNextHop.AsSlice(),
		LinkIndex: link.Attrs().Index,
		Flags:     int(netlink.FLAG_ONLINK),
		Src:       want.Source.AsSlice(),
		MTU:       want.MTU,
		Protocol:  routeProtocol,
	}
}

// ensureChannelRoutes leads to each peer's channel address through its lane.
func (r *run) ensureChannelRoutes() error {
	routes, failures := r.channelRoutes()
	if len(routes) == 0 {
		return errors.Join(failures...)
	}
	present, err := ownRoutes(netlink.FAMILY_V6)
	if err != nil {
		return err
	}
	for _, route := range routes {
		failures = append(failures, r.ensureRoute(present, route))
	}
	return errors.Join(failures...)
}

func (r *run) channelRoutes() ([]netlink.Route, []error) {
	var routes []netlink.Route
	var failures []error
	for _, lane := range r.plan.Lanes {
		link, err := findDevice(lane.Device)
		if err != nil || link == nil || link.Attrs().Flags&unix.IFF_UP == 0 {
			failures = append(failures, err)
			continue
		}
		for _, peer := range lane.Peers {
			if !peer.ChannelAddress.IsValid() || !lane.ChannelAddress.IsValid() {
				continue
			}
			routes = append(routes, netlink.Route{
				Family:    netlink.FAMILY_V6,
				Table:     unix.RT_TABLE_MAIN,
				Dst:       toIPNet(netip.PrefixFrom(peer.ChannelAddress, 128)),
				LinkIndex: link.Attrs().Index,
				Src:       lane.ChannelAddress.AsSlice(),
				Protocol:  routeProtocol,
			})
		}
	}
	return routes, failures
}

// ownRoutes lists Weft's routes of a family in all tables.
func ownRoutes(family int) ([]netlink.Route, error) {
	routes, err := dump(func() ([]netlink.Route, error) {
		filter := &netlink.Route{Protocol: routeProtocol, Table: unix.RT_TABLE_UNSPEC}
		return netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return routes, nil
}

// routeKey is what makes two routes the same route.
type routeKey struct {
	table       int
	destination netip.Prefix
}

func keyOf(route netlink.Route) routeKey {
	return routeKey{table: route.Table, destination: toPrefix(route.Dst)}
}

func (r *run) ensureRoute(present []netlink.Route, want netlink.Route) error {
	action := "add"
	for _, have := range present {
		if keyOf(have) != keyOf(want) {
			continue
		}
		if sameRoute(have, want) {
			return nil
		}
		action = "change"
	}
	// Replacing is atomic: there is no moment without the route.
	if err := netlink.RouteReplace(&want); err != nil {
		return fmt.Errorf("%s route %s: %w", action, want.Dst, err)
	}
	r.did(action, "route", want.Dst.String())
	return nil
}

func sameRoute(have, want netlink.Route) bool {
	return have.LinkIndex == want.LinkIndex && toAddr(have.Gw) == toAddr(want.Gw) && toAddr(have.Src) == toAddr(want.Src) &&
		have.MTU == want.MTU && have.Flags&int(netlink.FLAG_ONLINK) == want.Flags
}

// pruneRoutes removes rules and routes of ours that the plan does not name.
func (r *run) pruneRoutes() {
	r.fail(r.pruneRules())
	wanted := map[routeKey]bool{}
	if r.plan.Overlay != nil {
		for _, route := range r.plan.Routing.Routes {
			wanted[routeKey{table: r.plan.Routing.Table, destination: route.Destination.Masked()}] = true
		}
	}
	for _, lane := range r.plan.Lanes {
		for _, peer := range lane.Peers {
			if peer.ChannelAddress.IsValid() {
				wanted[routeKey{table: unix.RT_TABLE_MAIN, destination: netip.PrefixFrom(peer.ChannelAddress, 128)}] = true
			}
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		present, err := ownRoutes(family)
		if !r.fail(err) {
			continue
		}
		for _, route := range present {
			if wanted[keyOf(route)] {
				continue
			}
			if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				r.fail(fmt.Errorf("remove route %s: %w", route.Dst, err))
				continue
			}
			r.did("remove", "route", route.Dst.String())
		}
	}
}

// ensureNeighbor keeps the one permanent entry that answers for the next hop.
func (r *run) ensureNeighbor(link netlink.Link) error {
	want := netlink.Neigh{
		LinkIndex:    link.Attrs().Index,
		Family:       netlink.FAMILY_V4,
		State:        netlink.NUD_PERMANENT,
		IP:           plan.OverlayNextHop.AsSlice(),
		HardwareAddr: nextHopMAC,
	}
	present, err := dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(want.LinkIndex, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list neighbors of %s: %w", link.Attrs().Name, err)
	}
	for _, have := range present {
		if have.IP.Equal(want.IP) && have.State == want.State && bytes.Equal(have.HardwareAddr, want.HardwareAddr) {
			return nil
		}
	}
	if err := netlink.NeighSet(&want); err != nil {
		return fmt.Errorf("set neighbor %s of %s: %w", plan.OverlayNextHop, link.Attrs().Name, err)
	}
	r.did("add", "neighbor", fmt.Sprintf("%s on %s", plan.OverlayNextHop, link.Attrs().Name))
	return nil
}
