package apply_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/weft-fabric/weft/dataplane/apply"
)

// run runs a command and returns what it printed.
func run(t testing.TB, line string, args ...any) string {
	t.Helper()
	output, err := exec.Command("sh", "-c", fmt.Sprintf(line, args...)).CombinedOutput()
	require.NoError(t, err, "%s: %s", fmt.Sprintf(line, args...), output)
	return string(output)
}

// snapshot is what Apply is responsible for, as the system's own tools show it.
// Handles, indexes and times are left out.
func snapshot(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, command := range []string{
		"nft list table inet weft",
		"ip -brief address show dev weft-vx", "ip -brief address show dev weft0",
		"ip link show dev weft-vx | sed 's/^[0-9]*: //'", "ip link show dev weft0 | sed 's/^[0-9]*: //'",
		"ip rule", "ip route show table 7077", "ip -6 route show dev weft0 proto 119", "ip neighbor show dev weft-vx",
		"sysctl net.ipv4.conf.weft-vx.rp_filter net.ipv4.conf.weft0.accept_local net.ipv4.conf.weft0.accept_source_route",
		"ls " + pinRoot + "/links " + pinRoot + "/maps-v1",
	} {
		for _, line := range strings.Split(strings.TrimSpace(run(t, "%s", command)), "\n") {
			all = append(all, command+": "+strings.TrimSpace(line))
		}
	}
	return all
}

// difference returns the lines that only one of the two has.
func difference(before, after []string) []string {
	var lines []string
	for _, line := range before {
		if !slices.Contains(after, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return lines
}

// Whatever others break, the next Apply repairs, and the one after it finds
// nothing to do.
func TestRepair(t *testing.T) {
	startWireguard(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, gatewayPlan())
	whole := snapshot(t)

	for _, damage := range []string{
		"ip link delete weft-vx",
		"ip link set weft-vx down",
		"ip link set weft-vx mtu 1300",
		"ip link set weft-vx address 02:00:00:00:00:01",
		"ip link set weft-vx arp on",
		"ip address flush dev weft-vx",
		"ip address add 198.51.100.1/24 dev weft-vx",
		"ip link delete weft-vx && ip link add weft-vx type vxlan id 5 dstport 4999 dev lo",
		"ip link delete weft0",
		"ip link set weft0 down",
		"ip -6 address flush dev weft0",
		"ip -6 route flush dev weft0",
		"ip route flush table 7077",
		"ip route replace 100.70.0.0/16 via 169.254.77.1 dev weft-vx onlink table 7077 proto 119",
		"ip route add 203.0.113.0/24 via 169.254.77.1 dev weft-vx onlink table 7077 proto 119",
		"ip rule delete priority 105",
		"ip rule add priority 99 table 7077 protocol 119",
		"ip neighbor flush dev weft-vx nud permanent",
		"nft flush ruleset",
		"nft flush table inet weft",
		"nft flush chain inet weft access",
		"nft insert rule inet weft access accept",
		"nft add chain inet weft other",
		"nft flush set inet weft foreign",
		"nft delete element inet weft granted '{ 100.70.0.0/16 }'",
		"nft add element inet weft granted '{ 100.99.0.0/16 }'",
		"sysctl -w net.ipv4.conf.weft-vx.rp_filter=1 net.ipv4.conf.weft0.accept_local=0",
		"sysctl -w net.ipv4.conf.weft0.accept_source_route=1",
		"rm " + pinRoot + "/links/weft0-ingress",
		"rm " + pinRoot + "/programs/*",
		"rm " + pinRoot + "/maps-v1/weft_rows4",
		"rm -r " + pinRoot,
	} {
		t.Run(damage, func(t *testing.T) {
			run(t, "%s", damage)
			report := applied(t, executor, gatewayPlan())
			require.NotEmpty(t, report.Changes)
			require.Empty(t, difference(whole, snapshot(t)))
			requireAttached(t)
			require.Empty(t, applied(t, executor, gatewayPlan()).Changes)
		})
	}
}

// requireAttached asks the kernel for the programs on both devices.
func requireAttached(t *testing.T) {
	t.Helper()
	for _, device := range []string{"weft-vx", "weft0"} {
		found, err := netlink.LinkByName(device)
		require.NoError(t, err)
		for _, direction := range []string{"ingress", "egress"} {
			pinned, err := link.LoadPinnedLink(filepath.Join(pinRoot, "links", device+"-"+direction), nil)
			require.NoError(t, err)
			info, err := pinned.Info()
			require.NoError(t, err)
			require.EqualValues(t, found.Attrs().Index, info.TCX().Ifindex, "%s of %s", direction, device)
			require.NoError(t, pinned.Close())
		}
	}
}

// The userspace WireGuard restarts and has lost keys and peers: they are put
// back, with the same key.
func TestRestartedWireguard(t *testing.T) {
	server := startWireguard(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	before := applied(t, executor, gatewayPlan())
	require.True(t, before.Lanes[0].Userspace, "this kernel has WireGuard, which does not restart")
	lanes, err := executor.Lanes()
	require.NoError(t, err)

	kill(server)
	startWireguard(t)
	after := applied(t, executor, gatewayPlan())
	require.Equal(t, before.Lanes, after.Lanes)
	require.Contains(t, after.Changes, apply.Change{Action: "change", Kind: "private key", Object: "weft0"})
	again, err := executor.Lanes()
	require.NoError(t, err)
	require.Equal(t, peersOf(lanes), peersOf(again))
	require.Empty(t, applied(t, executor, gatewayPlan()).Changes)
}

// peersOf are the peers' keys with their endpoints.
func peersOf(lanes []apply.LaneState) map[[32]byte]netip.AddrPort {
	peers := map[[32]byte]netip.AddrPort{}
	for _, lane := range lanes {
		for _, peer := range lane.Peers {
			peers[peer.PublicKey] = peer.Endpoint
		}
	}
	return peers
}

// A failed item does not stop the others, and the next Apply finishes the rest.
func TestHalfFailedApplyConverges(t *testing.T) {
	startWireguard(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)

	run(t, "ip link add other type vxlan id 9 dstport 4797 dev lo && ip link set other up")
	report, err := executor.Apply(t.Context(), gatewayPlan())
	require.ErrorContains(t, err, "UDP port 4797 of the overlay is in use by the VXLAN device other: choose another in spec.ports.overlay")
	require.Contains(t, report.Changes, apply.Change{Action: "change", Kind: "nftables table", Object: "weft"}, "what does not depend on it is done")

	run(t, "ip link delete other")
	require.NotEmpty(t, applied(t, executor, gatewayPlan()).Changes)
	requireAttached(t)
	require.Empty(t, applied(t, executor, gatewayPlan()).Changes)
}

// The private key is the node's own: in one file, for root alone.
func TestKeyFile(t *testing.T) {
	startWireguard(t)
	state := filepath.Join(t.TempDir(), "weft")
	executor := newExecutor(t, state)
	cleanUp(t, executor)
	first := applied(t, executor, gatewayPlan())
	path := filepath.Join(state, "weft0.key")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	folder, err := os.Stat(state)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folder.Mode().Perm())

	require.NoError(t, os.WriteFile(path, []byte("secret nonsense\n"), 0o600))
	_, err = executor.Apply(t.Context(), gatewayPlan())
	require.ErrorContains(t, err, "weft0.key does not hold a WireGuard private key")
	require.NotContains(t, err.Error(), "nonsense")

	require.NoError(t, executor.RemoveState())
	entries, err := os.ReadDir(state)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NotEqual(t, first.Lanes[0].PublicKey, applied(t, executor, gatewayPlan()).Lanes[0].PublicKey)
}
