package program

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// patience with a machine that does other things too.
const patience = 10 * time.Second

// namespace is a network namespace of its own, without a name: it ends with
// the test.
type namespace struct {
	t     *testing.T
	tasks chan func()
	ended chan struct{} // when a task has failed the test, or the test is over
}

func newNamespace(t *testing.T) *namespace {
	n := &namespace{t: t, tasks: make(chan func()), ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		handle, err := netns.New()
		started <- err
		if err != nil {
			return
		}
		defer handle.Close()
		defer close(n.ended)
		for task := range n.tasks {
			task()
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() { close(n.tasks) })
	n.run(func() {
		loopback, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(loopback))
	})
	return n
}

// run a function inside. Sockets made in it stay inside.
func (n *namespace) run(task func()) {
	n.t.Helper()
	done := make(chan struct{})
	select {
	case n.tasks <- func() { task(); close(done) }:
	case <-n.ended:
		n.t.FailNow()
	}
	select {
	case <-done:
	case <-n.ended:
		n.t.FailNow()
	}
}

func (n *namespace) set(path, value string) {
	require.NoError(n.t, os.WriteFile("/proc/sys/"+path, []byte(value), 0o644))
}

// address gives a device an address and sets it up.
func (n *namespace) address(device, cidr string) netlink.Link {
	link, err := netlink.LinkByName(device)
	require.NoError(n.t, err)
	if cidr != "" {
		address, err := netlink.ParseAddr(cidr)
		require.NoError(n.t, err)
		require.NoError(n.t, netlink.AddrAdd(link, address))
	}
	require.NoError(n.t, netlink.LinkSetUp(link))
	return link
}

// listen for UDP on an address of the namespace.
func (n *namespace) listen(address string) (conn net.PacketConn) {
	n.run(func() {
		var err error
		conn, err = net.ListenPacket("udp4", address)
		require.NoError(n.t, err)
	})
	n.t.Cleanup(func() { conn.Close() })
	return conn
}

// receive one datagram.
func receive(t *testing.T, conn net.PacketConn) (payload string, from net.Addr) {
	t.Helper()
	buffer := make([]byte, 2048)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	n, from, err := conn.ReadFrom(buffer)
	require.NoError(t, err)
	return string(buffer[:n]), from
}

// tun is a device without Ethernet header whose wire is a file.
type tun struct {
	*os.File
	t *testing.T
}

func (n *namespace) newTun(name string) tun { return n.open(name, unix.IFF_TUN) }

// newTap is the same with an Ethernet header.
func (n *namespace) newTap(name string) tun { return n.open(name, unix.IFF_TAP) }

func (n *namespace) open(name string, kind uint16) (device tun) {
	n.run(func() {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		require.NoError(n.t, err)
		request, err := unix.NewIfreq(name)
		require.NoError(n.t, err)
		request.SetUint16(kind | unix.IFF_NO_PI)
		require.NoError(n.t, unix.IoctlIfreq(fd, unix.TUNSETIFF, request))
		require.NoError(n.t, unix.SetNonblock(fd, true))
		device = tun{os.NewFile(uintptr(fd), name), n.t}
	})
	n.t.Cleanup(func() { device.Close() })
	return device
}

// nextRaw is what leaves by the device next.
func (d tun) nextRaw() []byte {
	d.t.Helper()
	buffer := make([]byte, 1<<16)
	require.NoError(d.t, d.SetReadDeadline(time.Now().Add(patience)))
	n, err := d.Read(buffer)
	require.NoError(d.t, err)
	return buffer[:n]
}

// next IPv4 packet that leaves by the device.
func (d tun) next() []byte {
	d.t.Helper()
	for {
		if packet := d.nextRaw(); packet[0]>>4 == 4 {
			return packet
		}
	}
}

func (d tun) send(packet []byte) {
	d.t.Helper()
	_, err := d.Write(packet)
	require.NoError(d.t, err)
}

// decode an IPv4 packet whose header checksum and, if it is ICMP, whose ICMP
// checksum are right: such a sum, the checksum included, is 0xffff.
func decode(t *testing.T, packet []byte) gopacket.Packet {
	t.Helper()
	decoded := gopacket.NewPacket(packet, layers.LayerTypeIPv4, gopacket.Default)
	ip := decoded.NetworkLayer().(*layers.IPv4)
	require.EqualValues(t, 0xffff, sum(ip.Contents), "IP header of %x", packet)
	if ip.Protocol == layers.IPProtocolICMPv4 {
		require.EqualValues(t, 0xffff, sum(ip.Payload), "ICMP of %x", packet)
	}
	return decoded
}

// sum of the 16-bit words in ones' complement.
func sum(data []byte) uint16 {
	var total uint64
	for i, value := range data {
		total += uint64(value) << (8 * (1 - i%2))
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return uint16(total)
}

// withTTL is the packet with another TTL and the same identification as got,
// with the header checksum anew.
func withTTL(packet []byte, ttl uint8, got []byte) []byte {
	decoded := gopacket.NewPacket(packet, layers.LayerTypeIPv4, gopacket.Default)
	other := gopacket.NewPacket(got, layers.LayerTypeIPv4, gopacket.Default).NetworkLayer().(*layers.IPv4)
	ip := decoded.NetworkLayer().(*layers.IPv4)
	ip.TTL, ip.Id, ip.Flags = ttl, other.Id, other.Flags
	buffer := gopacket.NewSerializeBuffer()
	must(ip.SerializeTo(buffer, gopacket.SerializeOptions{ComputeChecksums: true}))
	return append(append([]byte(nil), buffer.Bytes()...), packet[ip.IHL*4:]...)
}

func (l *Loaded) counts(t *testing.T) map[string]uint64 {
	t.Helper()
	counts, err := l.Counts()
	require.NoError(t, err)
	return counts
}

// sendUDP from a pod's address with a TTL and, if so, do-not-fragment.
func (n *namespace) sendUDP(source, destination string, ttl int, dontFragment bool, size int) {
	n.run(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(n.t, err)
		defer unix.Close(fd)
		require.NoError(n.t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, ttl))
		if dontFragment { // even beyond the route's MTU
			require.NoError(n.t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE))
		}
		require.NoError(n.t, unix.Bind(fd, &unix.SockaddrInet4{Addr: netip.MustParseAddr(source).As4()}))
		require.NoError(n.t, unix.Sendto(fd, make([]byte, size), 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(destination).As4(), Port: 9}))
	})
}

// packetSocket sees and sends raw frames of a device, past no program.
type packetSocket struct {
	t     *testing.T
	fd    int
	index int
}

func (n *namespace) packetSocket(device string) (s packetSocket) {
	n.run(func() {
		link, err := netlink.LinkByName(device)
		require.NoError(n.t, err)
		protocol := int(uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
		require.NoError(n.t, err)
		s = packetSocket{n.t, fd, link.Attrs().Index}
		require.NoError(n.t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(protocol), Ifindex: s.index}))
		require.NoError(n.t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}))
	})
	n.t.Cleanup(func() { unix.Close(s.fd) })
	return s
}

func (s packetSocket) send(frame []byte) {
	s.t.Helper()
	require.NoError(s.t, unix.Sendto(s.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: s.index}))
}

// nextIncoming is the next IPv4 packet that the device receives, without its
// Ethernet header.
func (s packetSocket) nextIncoming() []byte {
	s.t.Helper()
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(s.fd, buffer, 0)
		require.NoError(s.t, err)
		address := from.(*unix.SockaddrLinklayer)
		if address.Pkttype != unix.PACKET_OUTGOING && n > 14 && buffer[14]>>4 == 4 {
			return buffer[14:n]
		}
	}
}

// nextICMP is the next ICMP message received between the two addresses.
func (s packetSocket) nextICMP(source, destination string) *layers.ICMPv4 {
	s.t.Helper()
	for {
		packet := decode(s.t, s.nextIncoming())
		ip := packet.NetworkLayer().(*layers.IPv4)
		icmp, ok := packet.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
		if ok && ip.SrcIP.String() == source && ip.DstIP.String() == destination {
			return icmp
		}
	}
}
