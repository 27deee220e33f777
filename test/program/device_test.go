package program

import (
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

const overlayPort = 4797

// pair is a gateway with a lane that is a TUN, and a plain node, joined by an
// underlay: real devices, real stack, no encryption.
//
//	wire (the test) == weft0 [gateway] weft-vx == veth == weft-vx [plain]
type pair struct {
	gateway, plain    *namespace
	lane              tun
	here, there       *Loaded
	overlay           int // interface index on the gateway
	plainOverlayIndex int
}

func newPair(t *testing.T) *pair {
	p := &pair{gateway: newNamespace(t), plain: newNamespace(t)}
	p.joinUnderlay(t)
	p.lane = p.gateway.newTun("weft0")
	var laneIndex int
	p.gateway.run(func() {
		p.gateway.set("net/ipv6/conf/weft0/disable_ipv6", "1")
		laneIndex = p.gateway.address("weft0", "").Attrs().Index
		p.overlay = addOverlay(t, p.gateway, "02:00:00:00:00:01", "100.127.0.1/32")
		p.gateway.address("lo", "10.244.0.5/32")
	})
	p.plain.run(func() {
		p.plainOverlayIndex = addOverlay(t, p.plain, "02:00:00:00:00:02", "100.127.0.2/32")
		p.plain.address("lo", "10.244.1.5/32")
	})

	world := Example()
	for id, l := range world.Links {
		l.Lane = uint32(laneIndex)
		world.Links[id] = l
	}
	p.here = attach(t, p.gateway, world, map[string][2]int{"weft0": {laneIndex, 0}, "weft-vx": {p.overlay, 1}}, uint32(p.overlay))
	p.there = attach(t, p.plain, plainView(world), map[string][2]int{"weft-vx": {p.plainOverlayIndex, 1}}, uint32(p.plainOverlayIndex))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("counted on the gateway:", p.here.counts(t), "on the plain node:", p.there.counts(t))
		}
	})
	return p
}

// plainView is the same cluster as seen by the plain node.
func plainView(gateway *World) *World {
	w := *gateway
	w.FabricAddress = netip.MustParseAddr("100.127.0.2")
	w.Links, w.Rows, w.Paths = nil, nil, nil
	w.Gateways = map[uint8]Gateway{1: {HereUnderlay, false}, 2: {TwinUnderlay, false}}
	w.Choices = map[uint8][]uint8{Hub: {1}, Other: {1}, Far: {1}}
	w.Places = nil
	for _, place := range gateway.Places {
		place.Local = place.Underlay == PlainUnderlay
		w.Places = append(w.Places, place)
	}
	return &w
}

func (p *pair) joinUnderlay(t *testing.T) {
	var thread int
	p.plain.run(func() { thread = unix.Gettid() })
	p.gateway.run(func() {
		require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}))
		p.gateway.address("eth0", HereUnderlay.String()+"/24")
		peer, err := netlink.LinkByName("eth1")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetNsPid(peer, thread))
	})
	p.plain.run(func() { p.plain.address("eth1", PlainUnderlay.String()+"/24") })
}

// addOverlay makes weft-vx as the agent does, with routes to what is remote.
func addOverlay(t *testing.T, n *namespace, mac, fabric string) int {
	address, err := net.ParseMAC(mac)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: "weft-vx", HardwareAddr: address, MTU: 1450},
		FlowBased: true, Learning: false, Port: overlayPort,
	}))
	n.set("net/ipv4/ip_forward", "1")
	for _, device := range []string{"all", "weft-vx"} {
		n.set("net/ipv4/conf/"+device+"/rp_filter", "0")
	}
	n.set("net/ipv4/conf/weft-vx/accept_local", "1")
	n.set("net/ipv6/conf/weft-vx/disable_ipv6", "1")
	overlay := n.address("weft-vx", fabric)
	require.NoError(t, netlink.LinkSetARPOff(overlay))
	nextHop := net.IPv4(169, 254, 77, 1)
	require.NoError(t, netlink.NeighAdd(&netlink.Neigh{LinkIndex: overlay.Attrs().Index, IP: nextHop,
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}, State: netlink.NUD_PERMANENT}))
	for _, network := range Example().Networks {
		if network.Cluster == Self {
			continue
		}
		require.NoError(t, netlink.RouteAdd(&netlink.Route{LinkIndex: overlay.Attrs().Index, Gw: nextHop, Flags: int(netlink.FLAG_ONLINK),
			Dst: &net.IPNet{IP: network.Local.Addr().AsSlice(), Mask: net.CIDRMask(network.Local.Bits(), 32)},
			Src: netip.MustParsePrefix(fabric).Addr().AsSlice(), MTU: 1400}))
	}
	return overlay.Attrs().Index
}

// attach the programs by TCX: border on devices of kind 0, overlay on kind 1.
func attach(t *testing.T, n *namespace, w *World, devices map[string][2]int, overlay uint32) *Loaded {
	loaded, err := Load(w, Device{OverlayIfindex: overlay})
	require.NoError(t, err)
	t.Cleanup(loaded.Close)
	n.run(func() {
		for name, device := range devices {
			ingress, egress := loaded.BorderIngress, loaded.BorderEgress
			if device[1] == 1 {
				ingress, egress = loaded.OverlayIngress, loaded.OverlayEgress
			}
			for kind, program := range map[ebpf.AttachType]*ebpf.Program{ebpf.AttachTCXIngress: ingress, ebpf.AttachTCXEgress: egress} {
				attached, err := link.AttachTCX(link.TCXOptions{Interface: device[0], Program: program, Attach: kind})
				require.NoError(t, err, "attach to %s", name)
				t.Cleanup(func() { attached.Close() })
			}
		}
	})
	return loaded
}

// Hub pod 100.70.0.9 -> our pod 10.244.1.5 on the plain node, and back.
// lane ingress (L3) -> redirect, Ethernet header added -> overlay egress ->
// VXLAN -> overlay ingress, guard -> socket; the answer: overlay egress picks
// the gateway -> VXLAN -> overlay ingress -> redirect, header removed -> lane
// egress -> wire.
func TestLaneToNodeAndBack(t *testing.T) {
	p := newPair(t)
	pod := p.plain.listen("10.244.1.5:7000")

	p.lane.send(UDP("100.70.0.9", "100.70.1.5", 1234, 7000, "ping"))
	payload, from := receive(t, pod)
	require.Equal(t, "ping", payload)
	require.Equal(t, "100.70.0.9:1234", from.String())

	_, err := pod.WriteTo([]byte("pong"), from)
	require.NoError(t, err)
	got := p.lane.next()
	// 63: the gateway is a hop; the plain node's stack sent it.
	require.Equal(t, withTTL(UDP("100.70.1.5", "100.70.0.9", 7000, 1234, "pong"), 63, got), got)
	require.Equal(t, map[string]uint64{"link 1 lane ingress forwarded": 1, "link 1 lane egress forwarded": 1,
		"link 0 overlay egress forwarded": 1, "link 0 overlay ingress forwarded": 1}, p.here.counts(t))
	require.Equal(t, map[string]uint64{"link 0 overlay egress forwarded": 1, "link 0 overlay ingress forwarded": 1}, p.there.counts(t))
}

// The same with a pod on the gateway itself: lane ingress passes up to the
// stack; the answer is routed to the overlay's egress, which redirects it to
// the lane. The stack is not a hop for what it sends itself.
func TestLaneToOwnPodAndBack(t *testing.T) {
	p := newPair(t)
	pod := p.gateway.listen("10.244.0.5:7000")

	p.lane.send(UDP("100.70.0.9", "100.70.0.5", 1234, 7000, "ping"))
	payload, from := receive(t, pod)
	require.Equal(t, "ping", payload)
	require.Equal(t, "100.70.0.9:1234", from.String())

	_, err := pod.WriteTo([]byte("pong"), from)
	require.NoError(t, err)
	got := p.lane.next()
	require.Equal(t, withTTL(UDP("100.70.0.5", "100.70.0.9", 7000, 1234, "pong"), 64, got), got)
	require.Equal(t, map[string]uint64{"link 1 lane ingress forwarded": 1, "link 1 lane egress forwarded": 1,
		"link 0 overlay egress forwarded": 1}, p.here.counts(t))
}

// Transit: the hub's pod 100.70.0.9 to Other's pod; in over link 1, out over
// link 3, which share the lane here. Link 1 calls Other's pods 100.81/16, link
// 3 calls the hub's pods 244.9/16.
func TestTransit(t *testing.T) {
	p := newPair(t)
	p.lane.send(UDP("100.70.0.9", "100.81.0.7", 1, 2, "through"))
	got := p.lane.next()
	require.Equal(t, withTTL(UDP("244.9.0.9", "100.72.0.7", 1, 2, "through"), 63, got), got)
	require.Equal(t, map[string]uint64{"link 1 lane ingress transit": 1, "link 3 lane egress forwarded": 1}, p.here.counts(t))

	// The hub's stack answers for what ends here, and the sender finds its own
	// packet in the error.
	ended := IP("100.70.0.9", "100.81.0.7", layers.IPProtocolUDP)
	ended.TTL = 1
	big := IP("100.70.0.9", "100.81.0.7", layers.IPProtocolUDP)
	big.Flags = layers.IPv4DontFragment
	for _, c := range []struct {
		header *layers.IPv4
		size   int
		want   layers.ICMPv4TypeCode
		mtu    uint16
	}{
		{ended, 10, layers.CreateICMPv4TypeCode(layers.ICMPv4TypeTimeExceeded, 0), 0},
		{big, 1401 - 28, layers.CreateICMPv4TypeCode(layers.ICMPv4TypeDestinationUnreachable, layers.ICMPv4CodeFragmentationNeeded), 1400},
	} {
		p.lane.send(Serialize(c.header, &layers.UDP{SrcPort: 1, DstPort: 2}, gopacket.Payload(make([]byte, c.size))))
		got := decode(t, p.lane.next())
		ip := got.NetworkLayer().(*layers.IPv4)
		require.Equal(t, "100.127.0.1 100.70.0.9", ip.SrcIP.String()+" "+ip.DstIP.String())
		icmp := got.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
		require.Equal(t, c.want, icmp.TypeCode)
		require.Equal(t, c.mtu, icmp.Seq, "the next hop's MTU is the onward path's")
		quoted := decode(t, icmp.LayerPayload()).NetworkLayer().(*layers.IPv4)
		require.Equal(t, "100.70.0.9 100.81.0.7", quoted.SrcIP.String()+" "+quoted.DstIP.String())
	}

	// One that may be fragmented goes on in pieces.
	p.lane.send(Serialize(IP("100.70.0.9", "100.81.0.7", layers.IPProtocolUDP), &layers.UDP{SrcPort: 1, DstPort: 2}, gopacket.Payload(make([]byte, 1401-28))))
	length := 0
	for range 2 {
		ip := decode(t, p.lane.next()).NetworkLayer().(*layers.IPv4)
		require.Equal(t, "244.9.0.9 100.72.0.7", ip.SrcIP.String()+" "+ip.DstIP.String())
		length += len(ip.Payload)
	}
	require.Equal(t, 1401-20, length)
}

// A probe of one neighbor to another passes the hub, and its answer comes back,
// without a count.
func TestTransitProbe(t *testing.T) {
	p := newPair(t)
	probe := Probe{Type: bpfgen.ProbeRequest, Sequence: 7, Clock: 1, Sender: 42}
	p.lane.send(UDP("240.0.16.0", "240.0.16.0", 5555, 9812, probe.String()))
	got := p.lane.next()
	require.Equal(t, withTTL(UDP("244.8.16.0", "100.71.32.0", 5555, 9812, probe.String()), 63, got), got)
	probe.Type = bpfgen.ProbeAnswer
	p.lane.send(UDP("100.71.32.0", "244.8.16.0", 9812, 5555, probe.String()))
	got = p.lane.next()
	require.Equal(t, withTTL(UDP("240.0.16.0", "240.0.16.0", 9812, 5555, probe.String()), 63, got), got)
	require.Empty(t, p.here.counts(t))
}

// A probe between hosts 0 of the Node networks is turned around on the lane,
// without the stack; an answer ends silently.
func TestLinkProbe(t *testing.T) {
	p := newPair(t)
	request := Probe{Type: bpfgen.ProbeRequest, Sequence: 7, Clock: 0x1122334455667788, Sender: 42}
	answer := request
	answer.Type, answer.OuterFragments = bpfgen.ProbeAnswer, Example().Links[1].OuterFragments

	p.lane.send(UDP("240.0.16.0", "100.127.0.0", 5555, 9812, request.String()))
	require.Equal(t, UDP("100.127.0.0", "240.0.16.0", 9812, 5555, answer.String()), p.lane.next())
	p.lane.send(UDP("240.0.16.0", "100.127.0.0", 9812, 5555, answer.String()))
	p.lane.send(UDP("240.0.16.0", "100.127.0.0", 5555, 80, request.String()))
	require.Eventually(t, func() bool { return len(p.here.counts(t)) > 0 }, patience, time.Millisecond)
	require.Equal(t, map[string]uint64{"link 1 lane ingress probe_address": 1}, p.here.counts(t))
}

// A node probes its gateway through the overlay and learns what it can reach.
func TestNodeProbe(t *testing.T) {
	p := newPair(t)
	request := Probe{Type: bpfgen.ProbeRequest, Sequence: 7, Clock: 1, Sender: 42}
	answer := request
	answer.Type, answer.Reach = bpfgen.ProbeAnswer, Example().Reach

	socket := p.plain.packetSocket("weft-vx")
	socket.send(Serialize(&layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4},
		IP("100.127.0.2", "100.127.0.1", layers.IPProtocolUDP), &layers.UDP{SrcPort: 5555, DstPort: 9812}, gopacket.Payload(request.String())))
	want := UDP("100.127.0.1", "100.127.0.2", 9812, 5555, answer.String())
	require.Equal(t, want, socket.nextIncoming())
	require.Empty(t, p.here.counts(t))
	require.Empty(t, p.there.counts(t))
}

// What ends at the gateway is answered by its stack in the view of the sender:
// a pod of ours along the route that the CNI has to it, a remote one from the
// node's fabric address.
func TestStackAnswers(t *testing.T) {
	p := newPair(t)
	p.gateway.run(func() { // the CNI's route
		require.NoError(t, netlink.RouteAdd(&netlink.Route{Gw: PlainUnderlay.AsSlice(),
			Dst: &net.IPNet{IP: net.IPv4(10, 244, 1, 0), Mask: net.CIDRMask(24, 32)}}))
	})
	t.Run("time exceeded at lane egress", func(t *testing.T) {
		socket := p.plain.packetSocket("eth1")
		p.plain.sendUDP("10.244.1.5", "100.70.0.9", 1, false, 100)
		icmp := socket.nextICMP(HereUnderlay.String(), "10.244.1.5")
		require.Equal(t, layers.CreateICMPv4TypeCode(layers.ICMPv4TypeTimeExceeded, 0), icmp.TypeCode)
	})
	t.Run("too big at lane egress", func(t *testing.T) {
		socket := p.plain.packetSocket("eth1")
		p.plain.sendUDP("10.244.1.5", "100.72.0.9", 64, true, 1402-28)
		icmp := socket.nextICMP(HereUnderlay.String(), "10.244.1.5")
		require.Equal(t, layers.CreateICMPv4TypeCode(layers.ICMPv4TypeDestinationUnreachable, layers.ICMPv4CodeFragmentationNeeded), icmp.TypeCode)
		require.EqualValues(t, 1400, icmp.Seq, "the next hop's MTU is the path's")
	})
	t.Run("time exceeded at lane ingress", func(t *testing.T) {
		packet := IP("100.70.0.9", "100.70.1.5", layers.IPProtocolUDP)
		packet.TTL = 1
		p.lane.send(Serialize(packet, &layers.UDP{SrcPort: 1, DstPort: 2}, gopacket.Payload("hello")))
		got := decode(t, p.lane.next())
		ip := got.NetworkLayer().(*layers.IPv4)
		require.Equal(t, "100.127.0.1 100.70.0.9", ip.SrcIP.String()+" "+ip.DstIP.String(), "link 1 knows our Node network by its own prefix")
		quoted := decode(t, got.Layer(layers.LayerTypeICMPv4).LayerPayload()).NetworkLayer().(*layers.IPv4)
		require.Equal(t, "100.70.0.9 100.70.1.5", quoted.SrcIP.String()+" "+quoted.DstIP.String(), "the sender gets back what it sent")
	})
}

// Whoever can reach the overlay's port but is no node, or does not know the
// network identifier, or claims somebody else's inner source, is counted.
func TestForgedOverlay(t *testing.T) {
	p := newPair(t)
	inner := func(source string) []byte {
		return Serialize(&layers.Ethernet{SrcMAC: []byte{2, 1, 1, 1, 1, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 1}, EthernetType: layers.EthernetTypeIPv4},
			IP(source, "10.244.0.5", layers.IPProtocolUDP), &layers.UDP{SrcPort: 1, DstPort: 7000}, gopacket.Payload("forged"))
	}
	vxlan := func(vni uint32, frame []byte) []byte {
		return append([]byte{8, 0, 0, 0, byte(vni >> 16), byte(vni >> 8), byte(vni), 0}, frame...)
	}
	p.plain.run(func() { p.plain.address("eth1", "192.168.77.66/24") })
	send := func(source string, payload []byte) {
		conn := p.plain.listen(source + ":0")
		_, err := conn.WriteTo(payload, &net.UDPAddr{IP: HereUnderlay.AsSlice(), Port: overlayPort})
		require.NoError(t, err)
	}
	vni := Example().VNI
	send("192.168.77.66", vxlan(vni, inner("10.244.1.5")))          // a pod or a stranger
	send(PlainUnderlay.String(), vxlan(vni+1, inner("10.244.1.5"))) // wrong VNI
	send(PlainUnderlay.String(), vxlan(vni, inner("10.244.0.9")))   // a pod of the gateway
	send(PlainUnderlay.String(), vxlan(vni, inner("100.70.0.9")))   // a remote pod, but it is no gateway
	send(PlainUnderlay.String(), vxlan(vni, inner("8.8.8.8")))      // nobody's
	tagged := inner("10.244.0.9")
	tagged = append(tagged[:12:12], append([]byte{0x81, 0, 0, 0}, tagged[12:]...)...)
	send(PlainUnderlay.String(), vxlan(vni, tagged)) // behind a priority tag, which the kernel takes off before the program
	want := map[string]uint64{"link 0 overlay ingress vlan": 1, "link 0 overlay ingress tunnel_unknown_node": 1, "link 0 overlay ingress tunnel_wrong_vni": 1,
		"link 0 overlay ingress tunnel_source": 3}
	require.Eventually(t, func() bool { return maps.Equal(want, p.here.counts(t)) }, patience, 5*time.Millisecond)
}
