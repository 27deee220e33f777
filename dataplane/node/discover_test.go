package node

import (
	"net/netip"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
)

// inNamespace runs f in a network namespace of its own, after the ip commands.
func inNamespace(t *testing.T, commands string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is given up with the namespace: it is never unlocked.
		runtime.LockOSThread()
		ns, err := netns.New()
		if err != nil {
			t.Errorf("make a network namespace (needs root): %v", err)
			return
		}
		defer func() { _ = ns.Close() }()
		for _, line := range strings.Split(strings.TrimSpace(commands), "\n") {
			if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
				t.Errorf("ip %s: %v: %s", line, err, out)
				return
			}
		}
		f()
	}()
	<-done
}

// A node with an uplink, a pod device, and Weft's own devices and table.
const nodeCommands = `
link set lo up
link add eth0 mtu 1400 type veth peer name far
link set eth0 up
link set far up
addr add 192.168.7.9/24 dev eth0
route add default via 192.168.7.1
route add 10.244.3.0/24 via 192.168.7.3
route add 10.9.0.0/16 via 192.168.7.3 table 50
link add weft-vx type veth peer name weft0
link set weft-vx up
link set weft0 up
addr add 100.64.0.1/32 dev weft-vx
route add 100.70.0.0/16 dev weft-vx table 7077
route add 100.71.0.0/16 dev weft0
route add 100.72.0.0/16 via 192.168.7.3 table 7077
`

func TestDiscover(t *testing.T) {
	want := Facts{
		Underlay: netip.MustParseAddr("192.168.7.9"), UnderlayDevice: "eth0", UnderlayMTU: 1400,
		Occupied: prefixes("10.9.0.0/16", "10.244.3.0/24", "192.168.7.0/24"),
	}
	inNamespace(t, nodeCommands, func() {
		for _, underlay := range []netip.Addr{{}, netip.MustParseAddr("192.168.7.9")} {
			if facts, err := Discover(underlay, 7077); err != nil || !reflect.DeepEqual(facts, want) {
				t.Errorf("Discover(%s): %+v, %v; want %+v", underlay, facts, err, want)
			}
		}
		if _, err := Discover(netip.MustParseAddr("192.168.7.8"), 7077); err == nil || !strings.Contains(err.Error(), "--underlay-address") {
			t.Errorf("an address that no device has: %v", err)
		}
	})
}

func TestNoDefaultRoute(t *testing.T) {
	inNamespace(t, "link set lo up", func() {
		if _, err := Discover(netip.Addr{}, 7077); err == nil || !strings.Contains(err.Error(), "set --underlay-address") {
			t.Errorf("no default route: %v", err)
		}
	})
}
