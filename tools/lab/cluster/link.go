package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
	"github.com/weft-fabric/weft/tools/lab/render"
)

// LinkChange says what to change; nil leaves alone.
type LinkChange struct {
	RTT  *time.Duration
	Down *bool
}

// maxRTT bounds what the emulator's queue can hold.
const maxRTT = 2 * time.Second

// ChangeLink changes the path between two clusters, make before break.
func (l *Lab) ChangeLink(ctx context.Context, a, b string, change LinkChange) error {
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := l.load(); err != nil {
		return err
	}
	name := layout.LinkName(a, b)
	link, ok := l.Spec.Links[name]
	if !ok {
		return fmt.Errorf("there is no link between %q and %q; links are %s", a, b, strings.Join(l.LinkNames(), ", "))
	}
	old := link
	if change.RTT != nil && *change.RTT != link.RTT {
		if *change.RTT < 0 || *change.RTT > maxRTT {
			return fmt.Errorf("round trip %s is out of bounds; choose 0 to %s", *change.RTT, maxRTT)
		}
		link.RTT, link.Generation = *change.RTT, 1-link.Generation
	}
	if change.Down != nil {
		link.Down = *change.Down
	}
	l.Spec.Links[name] = link
	if err := l.save(); err != nil {
		return err
	}
	if err := l.applyLink(ctx, name); err != nil {
		return err
	}
	if err := l.retire(ctx, name, old.RTT); err != nil {
		return err
	}
	l.say("link %s: %s", name, link)
	return nil
}

// applyLink makes what carries the link and points the routes of both routers at it.
func (l *Lab) applyLink(ctx context.Context, name string) error {
	a, b, err := l.ends(name)
	if err != nil {
		return err
	}
	link := l.Spec.Links[name]
	routerA, err := machine.OpenNetwork(a.RouterNamespace())
	if err != nil {
		return err
	}
	defer routerA.Close()
	routerB, err := machine.OpenNetwork(b.RouterNamespace())
	if err != nil {
		return err
	}
	defer routerB.Close()

	if err := routerA.Cable(layout.VethDevice(b.Name), b.RouterNamespace(), layout.VethDevice(a.Name)); err != nil {
		return err
	}
	deviceA, deviceB := layout.VethDevice(b.Name), layout.VethDevice(a.Name)
	if link.RTT > 0 {
		deviceA, deviceB = layout.TUNDevice(b.Name, link.Generation), layout.TUNDevice(a.Name, link.Generation)
		if err := l.startWAN(ctx, a, b, link, func() bool { return routerA.Has(deviceA) && routerB.Has(deviceB) }); err != nil {
			return fmt.Errorf("emulate link %s: %w", name, err)
		}
	}
	if link.Down {
		deviceA, deviceB = "", ""
	}
	return errors.Join(pointAt(routerA, b, deviceA), pointAt(routerB, a, deviceB))
}

// startWAN starts the emulator and waits until its devices are up.
func (l *Lab) startWAN(ctx context.Context, a, b layout.Cluster, link layout.Link, ready func() bool) error {
	daemon := render.WAN(a, b, link, l.Folders.Program())
	if err := l.core().Put(ctx, daemon); err != nil {
		return err
	}
	err := waitFor(ctx, 10*time.Second, 5*time.Millisecond, func(context.Context) error {
		if !ready() {
			return errors.New("its devices do not come up")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w; its log is %s/%s.log", err, l.Folders.CoreLogs(), daemon.Name)
	}
	return nil
}

// pointAt routes everything of the other cluster through a device of this
// router; without device it is dropped silently. Nobody outside has a route to
// the nodes of a cluster behind NAT.
func pointAt(router *machine.Network, other layout.Cluster, device string) error {
	external := netip.PrefixFrom(other.ExternalAddress(), 32)
	var gateway netip.Addr
	if strings.HasPrefix(device, layout.VethDevice("")) {
		gateway = other.ExternalAddress()
	}
	prefixes := []netip.Prefix{external}
	if !other.NAT {
		prefixes = append(prefixes, other.Underlay())
	}
	var errs []error
	for _, prefix := range prefixes {
		via := gateway
		if prefix == external {
			via = netip.Addr{} // on the link itself
		}
		errs = append(errs, router.Route(prefix, via, device))
	}
	return errors.Join(errs...)
}

// retire ends the emulator that no route leads to any more, after what is
// under way in it has arrived.
func (l *Lab) retire(ctx context.Context, name string, oldRTT time.Duration) error {
	link := l.Spec.Links[name]
	daemons, err := l.core().List(ctx)
	if err != nil {
		return fmt.Errorf("list emulated links (lab up repairs the lab): %w", err)
	}
	for _, d := range daemons {
		current := link.RTT > 0 && d.Name == layout.WANDaemon(name, link.Generation)
		if current || !strings.HasPrefix(d.Name, "wan-"+name+"-") {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(oldRTT/2 + 50*time.Millisecond):
		}
		if err := l.core().Delete(ctx, d.Name); err != nil {
			return fmt.Errorf("end the old line of link %s: %w", name, err)
		}
	}
	return nil
}

func (l *Lab) ends(link string) (a, b layout.Cluster, err error) {
	nameA, nameB, _ := strings.Cut(link, "-")
	if a, err = l.Spec.Find(nameA); err != nil {
		return a, b, err
	}
	b, err = l.Spec.Find(nameB)
	return a, b, err
}

// LinkNames lists the links in order.
func (l *Lab) LinkNames() []string {
	var names []string
	for i, a := range l.Spec.Clusters {
		for _, b := range l.Spec.Clusters[i+1:] {
			names = append(names, layout.LinkName(a.Name, b.Name))
		}
	}
	return names
}
