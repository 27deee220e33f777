package apply

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/weft-fabric/weft/dataplane/lane"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// pruneDevices deletes the overlay and the lanes that are not planned.
func (r *run) pruneDevices() {
	planned := map[string]bool{}
	for _, lane := range r.plan.Lanes {
		planned[lane.Device] = true
	}
	present, err := lane.List(r.options.RunDir)
	r.fail(err)
	for _, device := range present {
		if planned[device] {
			continue
		}
		removed, err := lane.Remove(r.ctx, r.options.RunDir, device)
		if r.fail(err) && removed {
			r.did("remove", "device", device)
		}
	}
	if r.plan.Overlay == nil {
		r.fail(r.removeOverlay())
	}
}

func (r *run) removeOverlay() error {
	link, err := findDevice(plan.OverlayDevice)
	if err != nil || link == nil {
		return err
	}
	if _, ours := link.(*netlink.Vxlan); !ours {
		return nil
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("delete device %s: %w", plan.OverlayDevice, err)
	}
	r.did("remove", "device", plan.OverlayDevice)
	return nil
}
