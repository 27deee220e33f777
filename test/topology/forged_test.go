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
		conn, err := dial(plain.namespace, "udp4", netip.AddrPortFrom(gateway.underlay, overlayPort))
		require.NoError(t, err)
		for range 10 {
			_, err = conn.Write(vxlan(t, c.vni, c.source, c.destination))
			require.NoError(t, err)
		}
		conn.Close()
		gateway.eventually(t, "counted a forged packet: "+name, func() bool {
			return gateway.counted(t, c.reason) == before+10
		})
	}
}
