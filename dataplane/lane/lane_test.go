package lane_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/dataplane/lane"
	"github.com/weft-fabric/weft/dataplane/lane/isolate"
	"github.com/weft-fabric/weft/dataplane/lane/userspace"
)

const runDir = "/run/weft"

func TestMain(m *testing.M) {
	isolate.Main(m, map[string]func() error{"wireguard": func() error {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		return userspace.Run(context.Background(), userspace.Options{RunDir: runDir, Log: log})
	}})
}

// startWireguard runs weft-wireguard as a process of its own.
func startWireguard(t *testing.T) *exec.Cmd {
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

// needUserspace skips where Ensure would rightly make a kernel device.
func needUserspace(t *testing.T) {
	t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "weft99"
	if link := (&netlink.Wireguard{LinkAttrs: attributes}); netlink.LinkAdd(link) == nil {
		require.NoError(t, netlink.LinkDel(link))
		t.Skip("this kernel has WireGuard, so there are no userspace lanes")
	}
}

// A lane is requested, served, found again, survives a killed server and goes
// with its request.
func TestUserspaceLane(t *testing.T) {
	needUserspace(t)
	server := startWireguard(t)
	ctx := t.Context()

	kind, changed, err := lane.Ensure(ctx, runDir, "weft0", 1440)
	require.NoError(t, err)
	require.Equal(t, lane.Userspace, kind)
	require.True(t, changed)
	link, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.Equal(t, 1440, link.Attrs().MTU)

	kind, changed, err = lane.Ensure(ctx, runDir, "weft0", 1440)
	require.NoError(t, err)
	require.Equal(t, lane.Userspace, kind)
	require.False(t, changed, "nothing to do the second time")

	client, err := wgctrl.New()
	require.NoError(t, err)
	defer client.Close()
	key, err := wgtypes.GeneratePrivateKey()
	require.NoError(t, err)
	require.NoError(t, client.ConfigureDevice("weft0", wgtypes.Config{PrivateKey: &key}))

	kill(server)
	survivor, err := netlink.LinkByName("weft0")
	require.NoError(t, err, "the TUN outlives its server")
	require.Equal(t, link.Attrs().Index, survivor.Attrs().Index)

	startWireguard(t)
	_, changed, err = lane.Ensure(ctx, runDir, "weft0", 1440)
	require.NoError(t, err)
	require.False(t, changed)
	survivor, err = netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.Equal(t, link.Attrs().Index, survivor.Attrs().Index, "the same device is served again")
	device, err := client.Device("weft0")
	require.NoError(t, err)
	require.Zero(t, device.PrivateKey, "a new server knows no key")

	_, changed, err = lane.Ensure(ctx, runDir, "weft0", 1392)
	require.NoError(t, err)
	require.True(t, changed)
	link, err = netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.Equal(t, 1392, link.Attrs().MTU)

	names, err := lane.List(runDir)
	require.NoError(t, err)
	require.Equal(t, []string{"weft0"}, names)
	removed, err := lane.Remove(ctx, runDir, "weft0")
	require.NoError(t, err)
	require.True(t, removed)
	_, err = netlink.LinkByName("weft0")
	require.ErrorAs(t, err, &netlink.LinkNotFoundError{})
	require.NoFileExists(t, lane.SocketPath("weft0"))
	names, err = lane.List(runDir)
	require.NoError(t, err)
	require.Empty(t, names)
}

// Somebody deletes the TUN: its server makes it anew by itself.
func TestDeletedTUNComesBack(t *testing.T) {
	needUserspace(t)
	startWireguard(t)
	_, _, err := lane.Ensure(t.Context(), runDir, "weft1", 1440)
	require.NoError(t, err)
	before, err := netlink.LinkByName("weft1")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkDel(before))
	require.Eventually(t, func() bool {
		after, err := netlink.LinkByName("weft1")
		return err == nil && after.Attrs().Index != before.Attrs().Index
	}, 10*time.Second, 20*time.Millisecond)
	_, _, err = lane.Ensure(t.Context(), runDir, "weft1", 1440)
	require.NoError(t, err)
	_, err = lane.Remove(t.Context(), runDir, "weft1")
	require.NoError(t, err)
}

// With the server dead, a lane can still be removed.
func TestRemoveWithoutServer(t *testing.T) {
	needUserspace(t)
	server := startWireguard(t)
	_, _, err := lane.Ensure(t.Context(), runDir, "weft2", 1440)
	require.NoError(t, err)
	kill(server)
	removed, err := lane.Remove(t.Context(), runDir, "weft2")
	require.NoError(t, err)
	require.True(t, removed)
	_, err = netlink.LinkByName("weft2")
	require.ErrorAs(t, err, &netlink.LinkNotFoundError{})
	require.NoFileExists(t, lane.SocketPath("weft2"))
}

func TestEnsureNamesTheRemedy(t *testing.T) {
	needUserspace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _, err := lane.Ensure(ctx, runDir, "weft3", 1440)
	require.ErrorContains(t, err, "check that the weft-wireguard DaemonSet runs on this node")
	_, err = lane.Remove(t.Context(), runDir, "weft3")
	require.NoError(t, err)
}

func TestEnsureRefusesForeignDevices(t *testing.T) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "weft4"
	require.NoError(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}))
	_, _, err := lane.Ensure(t.Context(), runDir, "weft4", 1440)
	require.ErrorContains(t, err, "device weft4 exists and is a bridge")
	removed, err := lane.Remove(t.Context(), runDir, "weft4")
	require.NoError(t, err)
	require.False(t, removed, "a device of others stays")
	_, _, err = lane.Ensure(t.Context(), runDir, "../weft", 1440)
	require.ErrorContains(t, err, "the name must be weft and a number")
}

// A request that makes no sense is reported and leaves the others alone.
func TestRequests(t *testing.T) {
	folder := t.TempDir()
	_, err := lane.Requests(folder)
	require.ErrorIs(t, err, os.ErrNotExist)
	lanes := lane.RequestFolder(folder)
	require.NoError(t, os.MkdirAll(lanes, 0o700))
	for name, content := range map[string]string{
		"weft0.json": `{"mtu":1440}`, "weft1.json": `{`, "weft2.json": `{"mtu":1}`, "eth0.json": `{"mtu":1440}`, ".weft3.tmp": `{"mtu":1440}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(lanes, name), []byte(content), 0o600))
	}
	requests, err := lane.Requests(folder)
	require.ErrorContains(t, err, "lane request weft1 is not valid JSON")
	require.ErrorContains(t, err, "lane request weft2: MTU 1 is not between")
	require.Equal(t, map[string]lane.Request{"weft0": {MTU: 1440}}, requests)
}
