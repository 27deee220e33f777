package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/weft-fabric/weft/dataplane/lane"
	"github.com/weft-fabric/weft/dataplane/lane/isolate"
)

const runDir = "/run/weft"

func TestMain(m *testing.M) {
	isolate.Main(m, map[string]func() error{"main": func() error { return run([]string{"--run-dir", runDir}) }})
}

// A terminated weft-wireguard ends in good order and leaves the TUN behind, with
// all that is on it; its successor serves the same device.
func TestTerminate(t *testing.T) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "weft9"
	if link := (&netlink.Wireguard{LinkAttrs: attributes}); netlink.LinkAdd(link) == nil {
		require.NoError(t, netlink.LinkDel(link))
		t.Skip("this kernel has WireGuard, so there are no userspace lanes")
	}
	first := isolate.Helper("main", "")
	require.NoError(t, first.Start())
	_, _, err := lane.Ensure(t.Context(), runDir, "weft0", 1440)
	require.NoError(t, err)
	before, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	address, err := netlink.ParseAddr("100.64.0.7/32")
	require.NoError(t, err)
	require.NoError(t, netlink.AddrAdd(before, address))

	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.NoError(t, first.Wait(), "exit code 0")
	require.NoFileExists(t, lane.SocketPath("weft0"))
	after, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.Equal(t, before.Attrs().Index, after.Attrs().Index)
	addresses, err := netlink.AddrList(after, netlink.FAMILY_V4)
	require.NoError(t, err)
	require.Len(t, addresses, 1)

	second := isolate.Helper("main", "")
	require.NoError(t, second.Start())
	_, changed, err := lane.Ensure(t.Context(), runDir, "weft0", 1440)
	require.NoError(t, err)
	require.False(t, changed)
	_, err = lane.Remove(t.Context(), runDir, "weft0")
	require.NoError(t, err)
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	require.NoError(t, second.Wait())
}

func TestArguments(t *testing.T) {
	require.ErrorContains(t, run([]string{"surplus"}), `unexpected argument "surplus"`)
}
