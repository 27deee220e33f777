package topology

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// silence is how long nothing must come where something is forbidden.
const silence = 700 * time.Millisecond

func dialWithin(n namespace, network string, to netip.AddrPort, limit time.Duration) (conn net.Conn, err error) {
	err = n.do(func() error {
		conn, err = net.DialTimeout(network, to.String(), limit)
		return err
	})
	return conn, err
}

func control(t *testing.T, conn net.Conn, f func(fd int) error) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) { failed = f(int(fd)) }))
	require.NoError(t, failed)
}

// A datagram that may not be fragmented crosses at the path's MTU; one byte
// more is an error to the sender, with the exact MTU, and never silence.
func (f *fabric) testPathMTU(t *testing.T) {
	const headers = 28
	pathMTU := min(f.a.pathMTU(), f.b.pathMTU())
	for _, r := range f.podPairs() {
		conn, err := dial(r.from, "udp4", netip.AddrPortFrom(r.to, echoPort))
		require.NoError(t, err)
		defer conn.Close()
		control(t, conn, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
		buffer := make([]byte, 1<<16)
		_, err = conn.Write(random(pathMTU - headers))
		require.NoError(t, err, r.name)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, err = conn.Read(buffer)
		require.NoError(t, err, "%s: at the MTU", r.name)

		require.True(t, await(patience, func() bool {
			_, err := conn.Write(random(pathMTU - headers + 1))
			return errors.Is(err, unix.EMSGSIZE)
		}), "%s: one byte more is no error", r.name)
		var mtu int
		control(t, conn, func(fd int) (err error) {
			mtu, err = unix.GetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU)
			return err
		})
		require.Equal(t, pathMTU, mtu, "%s: the MTU that the sender was told", r.name)
	}
}

// The hops from a pod on a plain node to a pod on a remote plain node: own
// node, own gateway, remote gateway, remote node, pod.
func (f *fabric) testTraceroute(t *testing.T) {
	target := seenFrom(f.b.nodes[1].pods[0].address, f.aNames)
	hops := traceroute(t, f.a.nodes[1].pods[0].namespace, target)
	gateway := f.a.gatewayNode()
	require.Len(t, hops, 5, "hops %v", hops)
	require.Equal(t, "10.244.2.1", hops[0].String(), "own node")
	require.Contains(t, []netip.Addr{gateway.fabric, gateway.underlay}, hops[1], "own gateway")
	require.Equal(t, seenFrom(f.b.gatewayNode().fabric, f.aNames), hops[2], "remote gateway")
	require.Equal(t, seenFrom(f.b.nodes[1].fabric, f.aNames), hops[3], "remote node")
	require.Equal(t, target, hops[4])
}

// traceroute returns who answers on the way to a destination, which included.
func traceroute(t *testing.T, from namespace, to netip.Addr) (hops []netip.Addr) {
	t.Helper()
	for ttl := 1; ttl <= 8; ttl++ {
		hop, err := probeHop(t, from, to, ttl)
		require.NoError(t, err, "hop %d after %v", ttl, hops)
		hops = append(hops, hop)
		if hop == to {
			break
		}
	}
	return hops
}

// probeHop sends a datagram with a TTL to a closed port and returns who
// answered with an ICMP error that quotes it.
func probeHop(t *testing.T, n namespace, to netip.Addr, ttl int) (netip.Addr, error) {
	t.Helper()
	listener, err := rawICMP(n)
	require.NoError(t, err)
	defer listener.Close()
	conn, err := dial(n, "udp4", netip.AddrPortFrom(to, 33434))
	require.NoError(t, err)
	defer conn.Close()
	control(t, conn, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TTL, ttl) })
	port := conn.LocalAddr().(*net.UDPAddr).Port
	_, err = conn.Write(random(32))
	require.NoError(t, err)
	_ = listener.SetReadDeadline(time.Now().Add(patience))
	buffer := make([]byte, 1500)
	for {
		length, from, err := listener.ReadFrom(buffer)
		if err != nil {
			return netip.Addr{}, err
		}
		message, err := icmp.ParseMessage(1, buffer[:length])
		if err != nil || message.Type != ipv4.ICMPTypeTimeExceeded && message.Type != ipv4.ICMPTypeDestinationUnreachable {
			continue
		}
		// The quote starts after the ICMP header: IP header, then UDP.
		quote := buffer[8:length]
		if len(quote) < 28 || int(quote[20])<<8|int(quote[21]) != port || netip.AddrFrom4([4]byte(quote[16:20])) != to {
			continue
		}
		return netip.ParseAddr(from.String())
	}
}

// TCP in bulk, both directions, with transmit offloads on and off: no receiver
// counts a checksum error.
func (f *fabric) testBulk(t *testing.T) {
	const size = 16 << 20
	setOffloads := func(state string) {
		for _, r := range f.podPairs() {
			mustRun(t, "nsenter", "--net=/run/netns/"+r.from.name, "--", "ethtool", "-K", "eth0", "tx", state, "tso", state, "gso", state, "gro", state)
		}
	}
	defer setOffloads("on")
	for _, state := range []string{"on", "off"} {
		setOffloads(state)
		for _, r := range f.podPairs() {
			if r.fromPod.node.number == r.toPod.node.number {
				continue // one pair a direction is enough: gateway to plain and back
			}
			require.NoError(t, bulk(r.from, r.to, size), "%s, offloads %s", r.name, state)
		}
	}
	for _, r := range f.podPairs() {
		for _, protocol := range []string{"Tcp", "Udp"} {
			require.Zero(t, snmp(t, r.from, protocol, "InCsumErrors"), "%s %s", r.fromPod.name, protocol)
		}
	}
}

// One write that the kernel cuts into datagrams (as QUIC stacks do) arrives as
// numbered datagrams of the size asked for.
func (f *fabric) testSegmentedDatagrams(t *testing.T, servers map[*pod]*counter) {
	const datagrams = 40
	for i, r := range f.podPairs() {
		conn, err := dial(r.from, "udp4", netip.AddrPortFrom(r.to, streamPort))
		require.NoError(t, err)
		control(t, conn, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, streamSize)
		})
		var batch []byte
		for number := range datagrams {
			packet := random(streamSize)
			binary.BigEndian.PutUint64(packet, uint64(1<<32+i*datagrams+number))
			batch = append(batch, packet...)
		}
		before := servers[r.toPod].received()
		_, err = conn.Write(batch)
		require.NoError(t, err)
		conn.Close()
		require.True(t, await(patience, func() bool { return servers[r.toPod].received() == before+datagrams }),
			"%s: %d of %d", r.name, servers[r.toPod].received()-before, datagrams)
	}
}

// snmp reads a counter of the namespace's stack.
func snmp(t *testing.T, n namespace, protocol, name string) int {
	t.Helper()
	var text []byte
	require.NoError(t, n.do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	}))
	var header []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] != protocol+":" {
			continue
		}
		if header == nil {
			header = fields
			continue
		}
		for i, field := range header {
			if field == name {
				value, err := strconv.Atoi(fields[i])
				require.NoError(t, err)
				return value
			}
		}
	}
	t.Fatalf("no counter %s %s", protocol, name)
	return 0
}

// refused counts the packets that b's nodes did not let in to their pods.
func (f *fabric) refused(t *testing.T) (packets int) {
	t.Helper()
	for _, n := range f.b.nodes {
		packets += n.firewalled(t, "access_not_granted")
	}
	return packets
}

// b takes back what it granted to a: no new flow from a gets in, while flows
// that b's pods open to a go on. Then it grants again.
func (f *fabric) testAccess(t *testing.T) {
	f.b.grant(t, f.a, v1alpha1.PodAccessNone)
	refused := f.refused(t)
	for _, r := range f.podPairs() {
		if r.fromPod.node.cluster == f.b {
			_, err := echoed(r.from, "tcp4", r.to, random(1000))
			require.NoError(t, err, "%s: a flow of our own", r.name)
			require.NoError(t, ping(r.from, r.to), r.name)
			continue
		}
		conn, err := dialWithin(r.from, "tcp4", netip.AddrPortFrom(r.to, echoPort), silence)
		if err == nil {
			conn.Close()
		}
		require.Error(t, err, "%s: it is not granted", r.name)
	}
	require.Greater(t, f.refused(t), refused, "refused packets are counted")
	f.b.grant(t, f.a, v1alpha1.PodAccessAll)
	f.testPods(t)
}
