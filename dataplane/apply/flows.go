package apply

import (
	"errors"
	"fmt"
	"net"

	"github.com/florianl/go-conntrack"
	"golang.org/x/sys/unix"
)

// revoked are the intervals that left a set: flows under them have to end.
type revoked struct {
	granted []element // flows that were opened from here
	foreign []element // flows in either direction
}

// forgetFlows deletes the connection tracking entries of revoked flows, so that
// their next packet counts as a new flow and finds no grant. Replies to flows
// that we opened are nobody's grant and stay.
func (r *run) forgetFlows(gone revoked) error {
	if len(gone.granted) == 0 && len(gone.foreign) == 0 {
		return nil
	}
	tracking, err := conntrack.Open(&conntrack.Config{})
	if err != nil {
		return fmt.Errorf("reach connection tracking: %w", err)
	}
	defer tracking.Close()
	flows, err := tracking.Dump(conntrack.Conntrack, conntrack.IPv4)
	if err != nil {
		return fmt.Errorf("list tracked flows: %w", err)
	}
	forgotten := 0
	var failures []error
	for _, flow := range flows {
		if flow.Origin == nil || !gone.covers(flow.Origin.Src, flow.Origin.Dst) {
			continue
		}
		err := tracking.Delete(conntrack.Conntrack, conntrack.IPv4, conntrack.Con{Origin: flow.Origin, Zone: flow.Zone})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			failures = append(failures, fmt.Errorf("forget a tracked flow: %w", err))
			continue
		}
		forgotten++
	}
	if forgotten > 0 {
		r.did("remove", "tracked flows", fmt.Sprint(forgotten))
	}
	return errors.Join(failures...)
}

func (g revoked) covers(source, destination *net.IP) bool {
	return contains(g.granted, source) || contains(g.foreign, source) || contains(g.foreign, destination)
}

func contains(intervals []element, ip *net.IP) bool {
	if ip == nil || ip.To4() == nil {
		return false
	}
	key := string(ip.To4())
	for _, interval := range intervals {
		if key >= interval.start && (interval.end == "" || key < interval.end) {
			return true
		}
	}
	return false
}
