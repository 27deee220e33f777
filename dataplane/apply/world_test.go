package apply_test

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netns"
)

// inNamespace runs f on a thread in the named network namespace. Sockets that f
// opens stay in it.
func inNamespace(t *testing.T, name string, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer close(done) // also when f ends the goroutine by a failed assertion
		// The thread is not given back: it ends with the goroutine.
		runtime.LockOSThread()
		handle, err := netns.GetFromName(name)
		if err == nil {
			err = netns.Set(handle)
		}
		if err != nil {
			done <- err
			return
		}
		f()
	}()
	require.NoError(t, <-done)
}

// world is a node (the test's own namespace) with a pod and a far end that owns
// all local views, behind a veth. Named weft-vx, it stands in for the overlay.
//
//	pod 10.244.1.5 ── [veth] node 192.0.2.10, 100.64.0.7 [uplink] ── far 100.70.0.9, 100.71.0.9, 192.0.2.1, 192.0.2.11
func world(t *testing.T, uplink string) {
	t.Helper()
	for _, line := range []string{
		"ip netns add weft-hands-pod", "ip netns add weft-hands-far",
		"ip link add weft-hands-p type veth peer name eth0 netns weft-hands-pod",
		"ip address add 10.244.1.1/24 dev weft-hands-p", "ip link set weft-hands-p up",
		"ip -n weft-hands-pod address add 10.244.1.5/24 dev eth0", "ip -n weft-hands-pod link set eth0 up",
		"ip -n weft-hands-pod link set lo up",
		"ip -n weft-hands-pod route add default via 10.244.1.1",
		"ip link add UPLINK type veth peer name eth0 netns weft-hands-far",
		"ip link set UPLINK up", "ip -n weft-hands-far link set eth0 up", "ip -n weft-hands-far link set lo up",
		"ip address add 192.0.2.10/24 dev UPLINK", "ip address add 100.64.0.7/32 dev lo",
		"ip -n weft-hands-far address add 192.0.2.1/24 dev eth0", "ip -n weft-hands-far address add 192.0.2.11/24 dev eth0",
		"ip -n weft-hands-far address add 100.70.0.9/32 dev eth0", "ip -n weft-hands-far address add 100.71.0.9/32 dev eth0",
		"ip -n weft-hands-far address add 100.99.0.9/32 dev eth0",
		"ip route add 100.70.0.0/16 via 192.0.2.1 src 192.0.2.10", "ip route add 100.71.0.0/20 via 192.0.2.1",
		"ip route add 100.99.0.0/16 via 192.0.2.1",
		"ip -n weft-hands-far route add default via 192.0.2.10",
		"sysctl -qw net.ipv4.ip_forward=1",
		// What a CNI does: everything that leaves gets the node's address.
		"nft add table ip cni", "nft add chain ip cni post '{ type nat hook postrouting priority 100; }'",
		"nft add rule ip cni post masquerade",
	} {
		run(t, "%s", strings.ReplaceAll(line, "UPLINK", uplink))
	}
	t.Cleanup(func() {
		run(t, "ip link delete %s; ip link delete weft-hands-p; ip netns delete weft-hands-pod; ip netns delete weft-hands-far; nft delete table ip cni; ip address delete 100.64.0.7/32 dev lo", uplink)
	})
}

// serveUDP answers every datagram with the source address that it saw.
func serveUDP(t *testing.T, namespace, address string) {
	t.Helper()
	var socket net.PacketConn
	listen := func() {
		var err error
		socket, err = net.ListenPacket("udp4", address)
		require.NoError(t, err)
	}
	if namespace == "" {
		listen()
	} else {
		inNamespace(t, namespace, listen)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buffer := make([]byte, 2048)
		for {
			_, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo([]byte(from.String()), from)
		}
	}()
}

// askUDP sends a datagram and returns the address under which the server saw us;
// the zero address if there was no answer.
func askUDP(t *testing.T, namespace, source, server string) netip.Addr {
	t.Helper()
	return openUDP(t, namespace, source, server)()
}

// openUDP returns a function that asks as askUDP does, always by the same flow.
func openUDP(t *testing.T, namespace, source, server string) func() netip.Addr {
	t.Helper()
	var connection net.Conn
	dial := func() {
		var err error
		connection, err = (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(source)}}).Dial("udp4", server)
		require.NoError(t, err)
	}
	if namespace == "" {
		dial()
	} else {
		inNamespace(t, namespace, dial)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return func() netip.Addr {
		_, err := connection.Write([]byte("who am I?"))
		require.NoError(t, err)
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		buffer := make([]byte, 256)
		n, err := connection.Read(buffer)
		if err != nil {
			return netip.Addr{}
		}
		return netip.MustParseAddrPort(string(buffer[:n])).Addr()
	}
}

// dropped is the number of packets that the table dropped for a reason.
func dropped(t *testing.T, reason string) int {
	t.Helper()
	output := run(t, "nft list counter inet weft %s", reason)
	fields := strings.Fields(output[strings.Index(output, "packets"):])
	n, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	return n
}

func udp(address string, port int) string { return fmt.Sprintf("%s:%d", address, port) }
