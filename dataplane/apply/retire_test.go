package apply_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// A node stops being a gateway. Its lane keeps its programs for as long as it
// exists: what its peers send names destinations in their words, which without
// translation may be anything of ours. With weft-wireguard killed the lane takes
// seconds to go.
func TestRetiredLaneStaysGuarded(t *testing.T) {
	wireguard := startWireguard(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, gatewayPlan())
	kill(wireguard)
	plain := gatewayPlan()
	plain.Lanes, plain.Firewall.LanePorts, plain.Firewall.ChannelAddresses = nil, nil, nil

	done := make(chan error, 1)
	go func() {
		_, err := executor.Apply(t.Context(), plain)
		done <- err
	}()
	looks := 0
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
		}
		_, pin := os.Stat(filepath.Join(pinRoot, "links", plan.LaneDevice+"-ingress"))
		if _, err := netlink.LinkByName(plan.LaneDevice); err == nil {
			looks++
			require.NoError(t, pin, "the lane is there without its programs")
		}
	}
	require.Greater(t, looks, 1)
	_, err := netlink.LinkByName(plan.LaneDevice)
	require.ErrorAs(t, err, &netlink.LinkNotFoundError{})
}

// A lane that the plan does not name (any more) is checked like any other.
func TestLeftLaneIsChecked(t *testing.T) {
	world(t, "weft7")
	serveUDP(t, "", "192.0.2.10:10250")
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, firewallOnly())
	require.False(t, askUDP(t, "weft-hands-far", "100.70.0.9", udp("192.0.2.10", 10250)).IsValid(), "the kubelet")
	require.Equal(t, 1, dropped(t, "access_destination"))
}
