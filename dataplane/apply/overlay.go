package apply

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// nextHopMAC answers for plan.OverlayNextHop. Locally administered; no device
// has it, so no receiver takes a frame for its own loop.
var nextHopMAC = net.HardwareAddr{0x02, 0x77, 0x65, 0x66, 0x74, 0x01}

// ensureOverlay makes the VXLAN device, still down if it is new.
func (r *run) ensureOverlay() {
	want := r.plan.Overlay
	if want == nil {
		return
	}
	link, err := findDevice(want.Device)
	if !r.fail(err) {
		return
	}
	if link != nil && !isOverlay(link, want.Port) {
		// Kind and port cannot be changed in place.
		if !r.fail(netlink.LinkDel(link)) {
			return
		}
		r.did("remove", "device", want.Device)
		link = nil
	}
	if link == nil {
		if link, err = createOverlay(want); !r.fail(err) {
			return
		}
		r.did("add", "device", want.Device)
	}
	r.fail(r.tuneOverlay(link, want))
	r.fail(r.ensureAddresses(link, netlink.FAMILY_V4, hostAddress(want.FabricAddress)))
}

func isOverlay(link netlink.Link, port uint16) bool {
	vxlan, ok := link.(*netlink.Vxlan)
	return ok && vxlan.FlowBased && vxlan.Port == int(port)
}

func createOverlay(want *plan.Overlay) (netlink.Link, error) {
	if err := checkUDPPort(want.Port, "overlay", "spec.ports.overlay of the FabricConfig"); err != nil {
		return nil, err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU, attributes.HardwareAddr = want.Device, want.MTU, want.MAC
	err := netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: attributes, FlowBased: true, Port: int(want.Port)})
	if err != nil {
		return nil, fmt.Errorf("create VXLAN device %s on UDP port %d: %w", want.Device, want.Port, err)
	}
	return netlink.LinkByName(want.Device)
}

// checkUDPPort finds a conflict before a device is made that could not come up:
// the kernel tells only then. It names the VXLAN device that holds the port.
func checkUDPPort(port uint16, use, setting string) error {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(port)})
	if err == nil {
		return socket.Close()
	}
	if !errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("check UDP port %d: %w", port, err)
	}
	holder := "another program"
	if links, err := netlink.LinkList(); err == nil {
		for _, link := range links {
			if vxlan, ok := link.(*netlink.Vxlan); ok && vxlan.Port == int(port) {
				holder = "the VXLAN device " + vxlan.Name
			}
		}
	}
	return fmt.Errorf("UDP port %d of the %s is in use by %s: choose another in %s, the same on every node", port, use, holder, setting)
}

// tuneOverlay sets what may drift: addresses, MTU, flags and sysctls.
func (r *run) tuneOverlay(link netlink.Link, want *plan.Overlay) error {
	var failures []error
	attributes := link.Attrs()
	if !bytes.Equal(attributes.HardwareAddr, want.MAC) {
		failures = append(failures, netlink.LinkSetHardwareAddr(link, want.MAC))
		r.did("change", "MAC address", want.Device)
	}
	if attributes.MTU != want.MTU {
		failures = append(failures, netlink.LinkSetMTU(link, want.MTU))
		r.did("change", "MTU", fmt.Sprintf("%s to %d", want.Device, want.MTU))
	}
	if attributes.RawFlags&unix.IFF_NOARP == 0 {
		failures = append(failures, netlink.LinkSetARPOff(link))
		r.did("change", "flag", want.Device+" NOARP")
	}
	failures = append(failures, r.tuneIPv4(want.Device))
	if hasIPv6() {
		failures = append(failures, r.ensureSysctl("ipv6", want.Device, "addr_gen_mode", "1"))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("set up device %s: %w", want.Device, err)
	}
	return nil
}

// tuneIPv4 sets the sysctls that our devices need, and only them. rp_filter is
// loose, as packets of one flow may come by any gateway; the effective value is
// the maximum of "all" and the device's. accept_local, as the stack may be
// handed its own packets back. No redirects, as routes lead back to the device
// that a packet came from when the stack fragments it. No source routes: the
// stack would follow a peer's addresses, which nothing has translated or checked.
func (r *run) tuneIPv4(device string) error {
	var failures []error
	for _, setting := range [][2]string{{"rp_filter", "2"}, {"accept_local", "1"}, {"forwarding", "1"},
		{"send_redirects", "0"}, {"accept_source_route", "0"}} {
		failures = append(failures, r.ensureSysctl("ipv4", device, setting[0], setting[1]))
	}
	return errors.Join(failures...)
}
