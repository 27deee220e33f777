// Package barewireguard runs one userspace WireGuard device with one peer and
// nothing else: what the fabric's latency and throughput are compared with.
package barewireguard

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Config of the device and its peer. It holds a secret: it is read from
// standard input and never logged.
type Config struct {
	Device     string `json:"device"`
	MTU        int    `json:"mtu"`
	PrivateKey string `json:"privateKey"`
	ListenPort uint16 `json:"listenPort"`
	// Address of the device, with the prefix that the peer is in as well.
	Address netip.Prefix `json:"address"`

	PeerKey      string         `json:"peerKey"`
	PeerEndpoint netip.AddrPort `json:"peerEndpoint"`
}

// String keeps the private key out of logs.
func (c Config) String() string {
	return fmt.Sprintf("bare WireGuard device %s (%s)", c.Device, c.Address)
}

func (c Config) validate() error {
	switch {
	case c.Device == "" || len(c.Device) > 15:
		return fmt.Errorf("device name %q is not 1 to 15 characters", c.Device)
	case c.MTU < 576 || c.MTU > 65535:
		return fmt.Errorf("MTU %d is not between 576 and 65535", c.MTU)
	case !c.Address.IsValid() || !c.PeerEndpoint.IsValid():
		return fmt.Errorf("an address with its prefix and the peer's endpoint are both needed")
	}
	return nil
}

// protocol writes c in WireGuard's cross-platform configuration protocol.
func (c Config) protocol() (string, error) {
	private, err := wgtypes.ParseKey(c.PrivateKey)
	if err != nil {
		return "", fmt.Errorf("read the private key of %s: %w", c.Device, err)
	}
	public, err := wgtypes.ParseKey(c.PeerKey)
	if err != nil {
		return "", fmt.Errorf("read the peer's key of %s: %w", c.Device, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "private_key=%s\n", hex.EncodeToString(private[:]))
	fmt.Fprintf(&b, "listen_port=%d\n", c.ListenPort)
	fmt.Fprintf(&b, "public_key=%s\n", hex.EncodeToString(public[:]))
	fmt.Fprintf(&b, "endpoint=%s\n", c.PeerEndpoint)
	fmt.Fprintf(&b, "allowed_ip=%s\n", c.Address.Masked())
	return b.String(), nil
}
