package apply_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/lane/isolate"
	"github.com/weft-fabric/weft/dataplane/lane/userspace"
	"github.com/weft-fabric/weft/dataplane/plan"
)

const (
	pinRoot = "/sys/fs/bpf/weft"
	runDir  = "/run/weft"
)

func TestMain(m *testing.M) {
	isolate.Main(m, map[string]func() error{"far": farWireguard, "wireguard": func() error {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		return userspace.Run(context.Background(), userspace.Options{RunDir: runDir, Log: log})
	}})
}

// startWireguard runs weft-wireguard as a process of its own. Where the kernel
// has WireGuard it stays idle.
func startWireguard(t testing.TB) *exec.Cmd {
	t.Helper()
	command := isolate.Helper("wireguard", "")
	require.NoError(t, command.Start())
	t.Cleanup(func() { kill(command) })
	return command
}

func kill(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait()
}

// newExecutor returns an executor as a started agent has it; at the test's end
// the zero plan leaves nothing behind.
func newExecutor(t testing.TB, stateDir string) *apply.Executor {
	t.Helper()
	executor, err := apply.New(apply.Options{PinRoot: pinRoot, StateDir: stateDir, RunDir: runDir, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = executor.Close() })
	return executor
}

func applied(t *testing.T, executor *apply.Executor, p plan.Plan) apply.Report {
	t.Helper()
	report, err := executor.Apply(t.Context(), p)
	require.NoError(t, err)
	return report
}

func cleanUp(t *testing.T, executor *apply.Executor) {
	t.Helper()
	t.Cleanup(func() {
		_, err := executor.Apply(context.Background(), plan.Plan{})
		require.NoError(t, err)
	})
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

func be32(s string) uint32 {
	a := addr(s).As4()
	return uint32(a[0]) | uint32(a[1])<<8 | uint32(a[2])<<16 | uint32(a[3])<<24
}

// gatewayPlan is a gateway with two peers.
func gatewayPlan() plan.Plan {
	own, peer1, peer2 := addr("fd79::1"), addr("fd79::2"), addr("fd79::3")
	return plan.Plan{
		Overlay: &plan.Overlay{
			Device: plan.OverlayDevice, Port: 4797, VNI: 0x123456, MTU: 1450,
			MAC:           net.HardwareAddr{0x02, 0x77, 0x65, 0x00, 0x00, 0x07},
			FabricAddress: addr("100.64.0.7"),
		},
		Lanes: []plan.Lane{{
			Device: plan.LaneDevice, Port: 51847, MTU: 1440, ChannelAddress: own,
			Peers: []plan.Peer{
				{PublicKey: [32]byte{1}, Endpoints: []string{"192.0.2.1:51847"}, ChannelAddress: peer1,
					AllowedIPs: []netip.Prefix{prefix("240.1.0.0/16"), prefix("240.2.16.0/20"), prefix("fd79::2/128")}},
				{PublicKey: [32]byte{2}, ChannelAddress: peer2,
					AllowedIPs: []netip.Prefix{prefix("240.3.0.0/16"), prefix("fd79::3/128")}},
			},
		}},
		Routing: plan.Routing{Table: 7077, RulePriority: 105, Routes: []plan.Route{
			{Destination: prefix("100.70.0.0/16"), Source: addr("100.64.0.7"), MTU: 1420},
			{Destination: prefix("100.71.0.0/20"), Source: addr("100.64.0.7"), MTU: 1400},
		}},
		Firewall: &plan.Firewall{
			OverlayPort: 4797, LanePorts: []uint16{51847}, ChannelPort: 9811, ProbePort: 9812,
			Underlays:        []netip.Addr{addr("192.0.2.10"), addr("192.0.2.11")},
			OwnPods:          []netip.Prefix{prefix("10.244.0.0/16")},
			OwnNodes:         []netip.Prefix{prefix("100.64.0.0/20")},
			FabricAddress:    addr("100.64.0.7"),
			Foreign:          []netip.Prefix{prefix("100.70.0.0/16"), prefix("100.71.0.0/20")},
			Granted:          []netip.Prefix{prefix("100.70.0.0/16")},
			ChannelAddresses: []netip.Addr{own},
		},
		Maps: plan.Maps{
			View4: map[uint32]bpfgen.BorderWeftNet{
				100<<8 | 70: {Flags: 1, PrefixLen: 16, Cluster: 1, Network: 1},
				10<<8 | 244: {Flags: 1, PrefixLen: 16},
			},
			Wire4: map[uint32]bpfgen.BorderWeftWire{240<<8 | 1: {Link: 1, Flags: 1, PrefixLen: 16, Cluster: 1, Network: 1}},
			Rows4: map[bpfgen.BorderWeftRowKey]bpfgen.BorderWeftRow4{
				{Link: 1, Cluster: 1, Network: 1}: {Local: be32("100.70.0.0"), Wire: be32("240.1.0.0"), Mask: be32("255.255.0.0"), Delta: 7},
			},
			Theirs4: map[bpfgen.BorderWeftTheirsKey]bpfgen.BorderWeftNet{
				{Prefix: be32("100.80.0.0"), Link: 1, PrefixLen: 16}: {Flags: 1, PrefixLen: 16},
			},
			Links:    map[uint32]plan.Link{1: {Lane: plan.LaneDevice, Value: bpfgen.BorderWeftLink{Flags: 1, Cluster: 1, OwnGateway: 1, RemoteGateway: 4}}},
			Accept:   map[bpfgen.BorderWeftAcceptKey]uint32{{Link: 1, Cluster: 1}: 1},
			Clusters: map[uint32]bpfgen.BorderWeftCluster{1: {Mtu: 1420}},
			Gateways4: map[uint32]bpfgen.BorderWeftGateway4{
				1: {Underlay: be32("192.0.2.10"), Flags: 1},
			},
			Places4: map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftPlace4{
				{Prefix: be32("10.244.1.0"), PrefixLen: 24}: {Underlay: be32("192.0.2.10"), Flags: 1},
				{Prefix: be32("10.244.2.0"), PrefixLen: 24}: {Underlay: be32("192.0.2.11")},
			},
			Nodes4:  map[uint32]uint32{be32("192.0.2.10"): 1, be32("192.0.2.11"): 1},
			Lengths: bpfgen.BorderWeftLengths{Places4: 1 << 23},
		},
	}
}
