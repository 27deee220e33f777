package fabric

import "github.com/weft-fabric/weft/apis/net/v1alpha1"

// MTU returns the bytes at layer 3 that this side of every path carries: the
// least of all lanes and all overlays, 0 if no node has told its underlay yet.
func MTU(nodes []v1alpha1.FabricNode) int32 {
	least := 0
	note := func(mtu int) {
		if mtu > 0 && (least == 0 || mtu < least) {
			least = mtu
		}
	}
	for i := range nodes {
		underlay := int(nodes[i].Status.UnderlayMTU)
		if underlay == 0 {
			continue
		}
		note(v1alpha1.OverlayMTU(underlay))
		if nodes[i].Spec.GatewayID != 0 {
			note(v1alpha1.LaneMTU(underlay))
		}
	}
	return int32(least)
}
