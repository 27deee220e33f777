package topology

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
)

const overlayPort = 4797

// vxlan builds the UDP payload of an overlay packet: a UDP datagram between two
// addresses in a frame to the node.
func vxlan(t *testing.T, vni int, source, destination netip.Addr) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}
	udp := &layers.UDP{SrcPort: 5353, DstPort: echoPort}
	require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
	buffer := gopacket.NewSerializeBuffer()
	require.NoError(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.VXLAN{ValidIDFlag: true, VNI: uint32(vni)},
		&layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 8}, EthernetType: layers.EthernetTypeIPv4},
		ip, udp, gopacket.Payload("forged")))
	return buffer.Bytes()
}

// Overlay packets that do not come from where they say they do end with a
// reason that is counted.
func (f *fabric) testForged(t *testing.T) {
	gateway, plain := f.a.gatewayNode(), f.a.nodes[1]
	ownPod, otherPod := plain.pods[0].address, gateway.pods[0].address
	remotePod := seenFrom(f.b.nodes[1].pods[0].address, f.aNames)
	for name, c := range map[string]struct {
		vni                 int
		source, destination netip.Addr
		reason              string
	}{
		"wrong VNI":             {f.a.vni + 1, ownPod, remotePod, "tunnel_wrong_vni"},
		"source of another":     {f.a.vni, otherPod, remotePod, "tunnel_source"},
		"source of nobody":      {f.a.vni, netip.MustParseAddr("10.244.9.9"), remotePod, "tunnel_source"},
		"foreign source":        {f.a.vni, remotePod, otherPod, "tunnel_source"},
		"source out of nowhere": {f.a.vni, netip.MustParseAddr("8.8.8.8"), otherPod, "tunnel_source"},
	} {
		before := gateway.counted(t, c.reason)
		sendForged(t, plain.namespace, gateway.underlay, vxlan(t, c.vni, c.source, c.destination))
		gateway.eventually(t, "counted a forged packet: "+name, func() bool {
			return gateway.counted(t, c.reason) == before+10
		})
	}
	f.testStrangers(t)
}

// The overlay's port is for nodes of the cluster: neither a host beside them nor
// a pod gets anything in, with the right VNI and addresses that fit.
func (f *fabric) testStrangers(t *testing.T) {
	gateway, plain := f.a.gatewayNode(), f.a.nodes[1]
	packet := vxlan(t, f.a.vni, gateway.pods[0].address, plain.pods[0].address)
	for name, c := range map[string]struct {
		from    namespace
		to      *node
		counter string
		at      *node // where it ends
	}{
		"host":                  {f.a.router, plain, "overlay_stranger", plain},
		"pod to another node":   {gateway.pods[0].namespace, plain, "overlay_forward", gateway},
		"pod to its own node":   {plain.pods[0].namespace, plain, "overlay_stranger", plain},
		"host of the neighbor":  {f.b.router, plain, "overlay_stranger", plain},
		"node of the neighbor":  {f.b.nodes[1].namespace, gateway, "overlay_stranger", gateway},
		"pod of the neighbor's": {f.b.nodes[1].pods[0].namespace, gateway, "overlay_stranger", gateway},
	} {
		before := c.at.firewalled(t, c.counter)
		sendForged(t, c.from, c.to.underlay, packet)
		c.at.eventually(t, "counted a stranger's packet: "+name, func() bool {
			return c.at.firewalled(t, c.counter) == before+10
		})
	}
}

func sendForged(t *testing.T, from namespace, to netip.Addr, packet []byte) {
	t.Helper()
	conn, err := dial(from, "udp4", netip.AddrPortFrom(to, overlayPort))
	require.NoError(t, err)
	defer conn.Close()
	for range 10 {
		_, err = conn.Write(packet)
		require.NoError(t, err)
	}
}
