package apply

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/dataplane/lane"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// ensureLanes makes the lane devices with key and port, still down if new.
func (r *run) ensureLanes() {
	for _, want := range r.plan.Lanes {
		r.fail(r.ensureLane(want))
	}
}

func (r *run) ensureLane(want plan.Lane) error {
	kind, changed, err := lane.Ensure(r.ctx, r.options.RunDir, want.Device, want.MTU)
	if changed {
		r.did("change", "device", want.Device)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(r.tuneIPv4(want.Device), r.tuneIPv6(want)); err != nil {
		return err
	}
	if err := r.ensureLaneAddress(want.Device); err != nil {
		return err
	}
	fact, err := r.ensureIdentity(want, kind)
	if err != nil {
		return err
	}
	r.report.Lanes = append(r.report.Lanes, fact)
	return nil
}

// ensureLaneAddress puts the fabric address on the lane too: on a device without
// any IPv4 address even a loose rp_filter drops what comes in
// (__fib_validate_source in net/ipv4/fib_frontend.c, no_addr).
func (r *run) ensureLaneAddress(device string) error {
	link, err := findDevice(device)
	if err != nil || link == nil || r.plan.Overlay == nil {
		return err
	}
	return r.ensureAddresses(link, netlink.FAMILY_V4, hostAddress(r.plan.Overlay.FabricAddress))
}

// ensureIdentity gives the lane its private key and port.
func (r *run) ensureIdentity(want plan.Lane, kind lane.Kind) (LaneFact, error) {
	key, err := laneKey(r.options.StateDir, want.Device)
	if err != nil {
		return LaneFact{}, err
	}
	fact := LaneFact{Device: want.Device, PublicKey: key.PublicKey(), Port: want.Port, Userspace: kind == lane.Userspace}
	client, err := wgctrl.New()
	if err != nil {
		return fact, fmt.Errorf("reach WireGuard: %w", err)
	}
	defer client.Close()
	have, err := client.Device(want.Device)
	if err != nil {
		return fact, fmt.Errorf("read lane %s: %w", want.Device, err)
	}
	var config wgtypes.Config
	if have.PrivateKey != key {
		config.PrivateKey = &key
		r.did("change", "private key", want.Device)
	}
	if port := int(want.Port); have.ListenPort != port {
		if err := checkUDPPort(want.Port, "lane "+want.Device, "spec.ports.lane of the FabricConfig"); err != nil {
			return fact, err
		}
		config.ListenPort = &port
		r.did("change", "port", fmt.Sprintf("%s to %d", want.Device, port))
	}
	if config.PrivateKey == nil && config.ListenPort == nil {
		return fact, nil
	}
	if err := client.ConfigureDevice(want.Device, config); err != nil {
		return fact, fmt.Errorf("set key and port %d of lane %s: %w", want.Port, want.Device, err)
	}
	return fact, nil
}

// raiseDevices brings up the devices whose programs are attached.
func (r *run) raiseDevices() {
	if overlay := r.plan.Overlay; overlay != nil {
		r.fail(r.raise(overlay.Device))
	}
	for _, want := range r.plan.Lanes {
		if r.fail(r.raise(want.Device)) {
			r.fail(r.ensureChannelAddress(want))
		}
	}
}

func (r *run) raise(device string) error {
	link, err := findDevice(device)
	if err != nil || link == nil || !r.guarded[device] || link.Attrs().Flags&unix.IFF_UP != 0 {
		return err // why it is missing or unguarded has been reported
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up %s: %w", device, err)
	}
	r.did("change", "device", device+" up")
	return nil
}

// ensureChannelAddress puts the channel address on the lane. It comes after the
// device is up, as taking a device down takes its IPv6 addresses away.
func (r *run) ensureChannelAddress(want plan.Lane) error {
	link, err := findDevice(want.Device)
	if err != nil || link == nil || !r.guarded[want.Device] {
		return err
	}
	if !hasIPv6() {
		return nil // reported, if it is needed
	}
	return r.ensureAddresses(link, netlink.FAMILY_V6, hostAddress(want.ChannelAddress))
}

// tuneIPv6 comes before the device is up, so that it gets no link-local address:
// nothing but the channel uses IPv6 here.
func (r *run) tuneIPv6(want plan.Lane) error {
	if !hasIPv6() {
		if !want.ChannelAddress.IsValid() {
			return nil
		}
		return fmt.Errorf("this node's kernel has no IPv6, which the peer channel on %s needs inside the tunnel: boot without ipv6.disable=1", want.Device)
	}
	var failures []error
	for _, setting := range [][2]string{{"addr_gen_mode", "1"}, {"accept_ra", "0"}, {"disable_ipv6", "0"}} {
		failures = append(failures, r.ensureSysctl("ipv6", want.Device, setting[0], setting[1]))
	}
	return errors.Join(failures...)
}

// Lanes as their WireGuard reports them now.
func (e *Executor) Lanes() ([]LaneState, error) {
	names, err := lane.List(e.options.RunDir)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	client, err := wgctrl.New()
	if err != nil {
		return nil, fmt.Errorf("reach WireGuard: %w", err)
	}
	defer client.Close()
	var states []LaneState
	var failures []error
	for _, name := range names {
		device, err := client.Device(name)
		if err != nil {
			failures = append(failures, fmt.Errorf("read lane %s: %w", name, err))
			continue
		}
		states = append(states, laneState(device))
	}
	return states, errors.Join(failures...)
}

func laneState(device *wgtypes.Device) LaneState {
	state := LaneState{LaneFact: LaneFact{
		Device:    device.Name,
		PublicKey: device.PublicKey,
		Port:      uint16(device.ListenPort),
		Userspace: device.Type == wgtypes.Userspace,
	}}
	for _, peer := range device.Peers {
		state.Peers = append(state.Peers, PeerState{
			PublicKey:     peer.PublicKey,
			Endpoint:      endpointOf(peer),
			LastHandshake: handshakeOf(peer),
			ReceivedBytes: peer.ReceiveBytes,
			SentBytes:     peer.TransmitBytes,
		})
	}
	// Userspace WireGuard lists them in any order.
	slices.SortFunc(state.Peers, func(a, b PeerState) int { return bytes.Compare(a.PublicKey[:], b.PublicKey[:]) })
	return state
}
