// Package lane makes and removes lane devices: WireGuard of the kernel, or,
// where the kernel has none, a TUN device that the weft-wireguard DaemonSet
// serves on request.
package lane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Kind says who encrypts.
type Kind string

const (
	Kernel    Kind = "kernel"
	Userspace Kind = "userspace"
)

// serveTimeout bounds the wait for weft-wireguard to serve a requested lane.
const serveTimeout = 30 * time.Second

// retryTimeout bounds the wait if the lane had been requested earlier.
const retryTimeout = 3 * time.Second

// removeTimeout bounds the wait for weft-wireguard to delete a lane. After it
// the device is deleted without it.
const removeTimeout = 3 * time.Second

// Ensure makes sure that the lane device exists with this MTU (bytes) and can
// be configured through wgctrl. It does not bring it up. The bool says whether
// anything changed. A userspace lane is requested in runDir and waited for
// at most 30 s.
func Ensure(ctx context.Context, runDir, device string, mtu int) (Kind, bool, error) {
	if !ValidName(device) {
		return "", false, fmt.Errorf("lane %q: the name must be weft and a number", device)
	}
	link, err := findLink(device)
	if err != nil {
		return "", false, err
	}
	if link == nil {
		created, err := createKernel(device, mtu)
		if err != nil {
			return "", false, err
		}
		if created {
			// A request of an earlier kernel would make weft-wireguard fight for the name.
			_, err := removeRequest(runDir, device)
			return Kernel, true, err
		}
		return ensureUserspace(ctx, runDir, device, mtu)
	}
	switch link.Type() {
	case "wireguard":
		changed, err := ensureMTU(link, mtu)
		return Kernel, changed, err
	case "tuntap", "tun":
		return ensureUserspace(ctx, runDir, device, mtu)
	}
	return "", false, fmt.Errorf("device %s exists and is a %s, not a WireGuard lane: delete or rename it", device, link.Type())
}

// createKernel returns false if the kernel has no WireGuard.
func createKernel(device string, mtu int) (bool, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = device, mtu
	err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attributes})
	if errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("create WireGuard device %s: %w", device, err)
	}
	return true, nil
}

func ensureUserspace(ctx context.Context, runDir, device string, mtu int) (Kind, bool, error) {
	requested, err := writeRequest(runDir, device, Request{MTU: mtu})
	if err != nil {
		return "", false, err
	}
	// A new request takes the server's start; an old one that is not served has
	// been waited for before, and the rest of the node should not wait again.
	timeout := retryTimeout
	if requested {
		timeout = serveTimeout
	}
	link, err := awaitServed(ctx, device, timeout)
	if err != nil {
		return "", requested, err
	}
	resized, err := ensureMTU(link, mtu)
	return Userspace, requested || resized, err
}

// awaitServed waits until the device exists and its UAPI socket answers.
func awaitServed(ctx context.Context, device string, timeout time.Duration) (netlink.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		if answers(device) {
			if link, err := findLink(device); err != nil || link != nil {
				return link, err
			}
		}
		if !pause(ctx) {
			return nil, fmt.Errorf("lane %s: this kernel has no WireGuard and nobody serves %s in userspace: check that the weft-wireguard DaemonSet runs on this node", device, SocketPath(device))
		}
	}
}

// Remove deletes the device and the request for it; the bool says whether there
// was any.
func Remove(ctx context.Context, runDir, device string) (bool, error) {
	if !ValidName(device) {
		return false, fmt.Errorf("lane %q: the name must be weft and a number", device)
	}
	requested, err := removeRequest(runDir, device)
	if err != nil {
		return requested, err
	}
	if requested {
		awaitGone(ctx, device)
	}
	link, err := findLink(device)
	if err != nil || link == nil {
		return requested, err
	}
	if !isLane(link) {
		return requested, nil
	}
	if err := netlink.LinkDel(link); err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) && !errors.Is(err, unix.ENODEV) {
		return requested, fmt.Errorf("delete lane %s: %w", device, err)
	}
	if !answers(device) {
		_ = os.Remove(SocketPath(device)) // of a weft-wireguard that was killed
	}
	return true, nil
}

func awaitGone(ctx context.Context, device string) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		if link, err := findLink(device); err != nil || link == nil {
			return
		}
		if !pause(ctx) {
			return
		}
	}
}

// List names the lane devices and requests that exist, sorted.
func List(runDir string) ([]string, error) {
	requests, err := Requests(runDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for name := range requests {
		names = append(names, name)
	}
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for _, link := range links {
		if ValidName(link.Attrs().Name) && isLane(link) {
			names = append(names, link.Attrs().Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func isLane(link netlink.Link) bool {
	return link.Type() == "wireguard" || link.Type() == "tuntap" || link.Type() == "tun"
}

// findLink returns nil if there is no such device.
func findLink(device string) (netlink.Link, error) {
	link, err := netlink.LinkByName(device)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up device %s: %w", device, err)
	}
	return link, nil
}

func ensureMTU(link netlink.Link, mtu int) (bool, error) {
	if link.Attrs().MTU == mtu {
		return false, nil
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return false, fmt.Errorf("set MTU %d of lane %s: %w", mtu, link.Attrs().Name, err)
	}
	return true, nil
}

// pause waits a moment; false if the context ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
