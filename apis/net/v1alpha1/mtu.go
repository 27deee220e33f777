package v1alpha1

// What a tunnel adds to a packet, in bytes.
const (
	// vxlanOverhead: outer IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14
	// (RFC 7348, 5).
	vxlanOverhead = 50
	// wireguardOverhead: outer IPv4 20, UDP 8, WireGuard header 16, tag 16.
	wireguardOverhead = 60
	// wireguardPadding: WireGuard pads to a multiple of 16, up to the MTU.
	wireguardPadding = 16
)

// LaneMTU returns the MTU in bytes of a lane over an underlay: the largest
// multiple of 16 that fits, so that padding never makes the outer packet too
// big.
func LaneMTU(underlay int) int {
	return (underlay - wireguardOverhead) / wireguardPadding * wireguardPadding
}

// OverlayMTU returns the MTU in bytes of the overlay over an underlay.
func OverlayMTU(underlay int) int { return underlay - vxlanOverhead }
