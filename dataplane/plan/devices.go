package plan

import (
	"crypto/sha256"
	"net"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// MAC returns the overlay's hardware address on a node: locally administered,
// unicast, derived from the node's name, so that it is unique and stable.
func MAC(node string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(node))
	mac := net.HardwareAddr(sum[:6])
	mac[0] = mac[0]&^0x01 | 0x02
	return mac
}

func (b *builder) overlay() {
	if len(b.nodes) == 0 || !b.nodes[0].self {
		return // the problem is named already
	}
	fabric := b.nodes[0].fabric
	switch {
	case b.in.VNI == 0 || b.in.VNI >= 1<<24:
		b.problem("", "the overlay has no VNI yet: weft-controller writes it to the Secret weft-overlay")
	case b.self.Spec.FabricAddress == "":
		b.problem("", "node %s has no fabric address yet: weft-controller assigns it", b.in.Node)
	case fabric.IsValid():
		b.plan.Overlay = &Overlay{
			Device: OverlayDevice, Port: uint16(b.in.Config.Spec.Ports.Overlay), VNI: b.in.VNI,
			MAC: MAC(b.in.Node), MTU: v1alpha1.OverlayMTU(b.in.Facts.UnderlayMTU), FabricAddress: fabric,
		}
	}
}

// lane plans the one lane of a gateway, without peers.
func (b *builder) lane() {
	if !b.isGateway() {
		return
	}
	lane := Lane{Device: LaneDevice, Port: uint16(b.in.Config.Spec.Ports.Lane), MTU: v1alpha1.LaneMTU(b.in.Facts.UnderlayMTU)}
	if id := b.in.Config.Status.Identity; id != "" {
		lane.ChannelAddress = identity.ChannelAddress(id, b.self.Spec.GatewayID)
	}
	b.plan.Lanes = []Lane{lane}
}

// pathMTU is what every path of this cluster carries: the least over its
// gateways' lanes and its nodes' overlays.
func (b *builder) pathMTU() int {
	mtu := v1alpha1.OverlayMTU(b.in.Facts.UnderlayMTU)
	for _, n := range b.nodes {
		if n.underlayMTU == 0 {
			continue
		}
		mtu = min(mtu, v1alpha1.OverlayMTU(n.underlayMTU))
		if n.object.Spec.GatewayID > 0 {
			mtu = min(mtu, v1alpha1.LaneMTU(n.underlayMTU))
		}
	}
	return mtu
}
