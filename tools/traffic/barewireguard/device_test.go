package barewireguard_test

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/tools/traffic/barewireguard"
)

func config(t *testing.T) barewireguard.Config {
	t.Helper()
	private, err := wgtypes.GeneratePrivateKey()
	require.NoError(t, err)
	peer, err := wgtypes.GeneratePrivateKey()
	require.NoError(t, err)
	return barewireguard.Config{
		Device: "bare0", MTU: 1440, PrivateKey: private.String(), ListenPort: 51999,
		Address: netip.MustParsePrefix("10.99.0.1/30"),
		PeerKey: peer.PublicKey().String(), PeerEndpoint: netip.MustParseAddrPort("127.0.0.1:51998"),
	}
}

// The device exists with its address while it runs and is gone afterwards.
func TestStartMakesTheDeviceAndCloseRemovesIt(t *testing.T) {
	require.Zero(t, os.Geteuid(), "run as root: the test makes a network namespace")
	runtime.LockOSThread() // and never unlock: the thread ends with the test
	ns, err := netns.New()
	require.NoError(t, err)
	defer ns.Close()

	c := config(t)
	closeDevice, err := barewireguard.Start(c)
	require.NoError(t, err)
	link, err := netlink.LinkByName("bare0")
	require.NoError(t, err)
	require.Equal(t, 1440, link.Attrs().MTU)
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
	require.NoError(t, err)
	require.Len(t, addresses, 1)
	require.Equal(t, "10.99.0.1/30", addresses[0].IPNet.String())
	closeDevice()
	_, err = netlink.LinkByName("bare0")
	require.ErrorAs(t, err, &netlink.LinkNotFoundError{})
}

func TestConfigIsCheckedAndKeepsItsSecret(t *testing.T) {
	c := config(t)
	require.NotContains(t, c.String(), c.PrivateKey)
	for _, bad := range []func(*barewireguard.Config){
		func(c *barewireguard.Config) { c.Device = "" },
		func(c *barewireguard.Config) { c.MTU = 1 },
		func(c *barewireguard.Config) { c.PeerEndpoint = netip.AddrPort{} },
		func(c *barewireguard.Config) { c.PrivateKey = "short" },
	} {
		broken := c
		bad(&broken)
		_, err := barewireguard.Start(broken)
		require.Error(t, err)
		require.NotContains(t, err.Error(), c.PrivateKey)
	}
}
