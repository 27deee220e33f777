package fabric

import "github.com/weft-fabric/weft/apis/net/v1alpha1"

const (
	// laneOverhead: outer IPv4 20, UDP 8, WireGuard data message 32 bytes.
	laneOverhead = 60
	// lanePadding: WireGuard pads its payload to a multiple of 16 bytes.
	lanePadding = 16
	// overlayOverhead: outer IPv4 20, UDP 8, VXLAN 8, Ethernet 14 bytes.
	overlayOverhead = 50
)

// MTU returns the bytes at layer 3 that this side of every path carries: the
// least of all lanes and all overlays, 0 if no node has told its underlay yet.
func MTU(nodes []v1alpha1.FabricNode) int32 {
	var least int32
	note := func(mtu int32) {
		if mtu > 0 && (least == 0 || mtu < least) {
			least = mtu
		}
	}
	for i := range nodes {
		underlay := nodes[i].Status.UnderlayMTU
		if underlay == 0 {
			continue
		}
		note(underlay - overlayOverhead)
		if nodes[i].Spec.GatewayID != 0 {
			note((underlay - laneOverhead) / lanePadding * lanePadding)
		}
	}
	return least
}
