package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

// routeProtocol marks routes and rules as Weft's (rtm_protocol, FRA_PROTOCOL):
// a number that no routing daemon of iproute2's list uses.
const routeProtocol = 119

// dump repeats a netlink dump that a concurrent change has torn.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	var items []T
	var err error
	for range 10 {
		if items, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return items, err
		}
	}
	return items, err
}

// findDevice returns nil if there is no device of this name.
func findDevice(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up device %s: %w", name, err)
	}
	return link, nil
}

// ensureSysctl writes net/<family>/conf/<device>/<key> if it holds another value.
func (r *run) ensureSysctl(family, device, key, value string) error {
	path := filepath.Join("/proc/sys/net", family, "conf", device, key)
	current, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read sysctl of %s: %w", device, err)
	}
	if strings.TrimSpace(string(current)) == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set sysctl net.%s.conf.%s.%s to %s (the agent must run privileged): %w", family, device, key, value, err)
	}
	r.did("change", "sysctl", fmt.Sprintf("net.%s.conf.%s.%s=%s", family, device, key, value))
	return nil
}

// hasIPv6 says whether the kernel has IPv6 at all.
func hasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}
