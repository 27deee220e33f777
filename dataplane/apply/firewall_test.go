package apply_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// firewallOnly leaves the devices to the test.
func firewallOnly() plan.Plan {
	return plan.Plan{Firewall: gatewayPlan().Firewall}
}

// A pod opens a flow to another cluster, whose CNI would masquerade it: the far
// end sees the pod, as NAT is set up once and ours came first. What has no
// fabric source becomes the node. Everything else is masqueraded as ever.
func TestSources(t *testing.T) {
	world(t, plan.OverlayDevice)
	serveAll(t)
	pod, far, node := "10.244.1.5", "100.70.0.9", "192.0.2.10"

	require.Equal(t, addr(node), askUDP(t, "weft-hands-pod", pod, udp(far, 7000)), "the CNI masquerades")

	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, firewallOnly())
	require.Equal(t, addr(pod), askUDP(t, "weft-hands-pod", pod, udp(far, 7000)), "a pod keeps its address")
	require.Equal(t, addr("100.64.0.7"), askUDP(t, "", "100.64.0.7", udp(far, 7000)), "a fabric address is kept")
	require.Equal(t, addr("100.64.0.7"), askUDP(t, "", node, udp(far, 7000)), "the node becomes its fabric address")
	require.Equal(t, addr(far), askUDP(t, "weft-hands-far", far, udp(pod, 7000)), "a remote pod keeps its local view")
	require.Equal(t, addr(node), askUDP(t, "weft-hands-pod", pod, udp("100.99.0.9", 7000)), "other destinations are the CNI's")
}

// Peers reach pods by grant, nodes by echo, and nothing else. Replies
// to flows that we opened always pass.
func TestAccess(t *testing.T) {
	world(t, plan.OverlayDevice)
	serveAll(t)
	for _, listen := range []string{"100.64.0.7:10250", "100.64.0.7:9812", "192.0.2.10:10250", "10.244.1.1:10250"} {
		serveUDP(t, "", listen)
	}
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, firewallOnly())
	pod, granted, other := "10.244.1.5", "100.70.0.9", "100.71.0.9"

	for _, flow := range []struct {
		story, namespace, source, server string
		passes                           bool
		reason                           string
	}{
		{"a granted cluster opens a flow to a pod", "weft-hands-far", granted, udp(pod, 7000), true, "access_not_granted"},
		{"another cluster does", "weft-hands-far", other, udp(pod, 7000), false, "access_not_granted"},
		{"a stranger does", "weft-hands-far", "100.99.0.9", udp(pod, 7000), false, "access_not_granted"},
		{"our pod opens a flow to the other cluster, and its reply passes", "weft-hands-pod", pod, udp(other, 7000), true, "access_not_granted"},
		{"the node does", "", "192.0.2.10", udp(other, 7000), true, "access_fabric_address"},
		{"the probes' port of a fabric address", "weft-hands-far", other, udp("100.64.0.7", 9812), false, "access_fabric_address"},
		{"the kubelet by the fabric address", "weft-hands-far", granted, udp("100.64.0.7", 10250), false, "access_fabric_address"},
		{"the kubelet by the node's own address", "weft-hands-far", granted, udp("192.0.2.10", 10250), false, "access_destination"},
		{"the node by its address on the pod's link", "weft-hands-far", other, udp("10.244.1.1", 10250), false, "access_not_granted"},
		{"a way through to the rest of the world", "weft-hands-far", granted, udp("100.99.0.1", 7000), false, "access_destination"},
	} {
		t.Run(flow.story, func(t *testing.T) {
			before := dropped(t, flow.reason)
			answer := askUDP(t, flow.namespace, flow.source, flow.server)
			require.Equal(t, flow.passes, answer.IsValid())
			require.Equal(t, !flow.passes, dropped(t, flow.reason) > before)
		})
	}
	run(t, "ip netns exec weft-hands-far ping -c1 -W1 -I %s 100.64.0.7", other)

	// A half-open TCP segment is a flow that nobody opened.
	before := dropped(t, "access_not_granted")
	inNamespace(t, "weft-hands-far", func() { sendACK(t, other, pod) })
	require.Greater(t, dropped(t, "access_not_granted"), before)

	// The grant ends, and with it the flows that it let in, but not ours.
	inbound := openUDP(t, "weft-hands-far", granted, udp(pod, 7000))
	outbound := openUDP(t, "weft-hands-pod", pod, udp(granted, 7000))
	require.True(t, inbound().IsValid())
	require.True(t, outbound().IsValid())
	drops, err := executor.HostDrops()
	require.NoError(t, err)
	require.Len(t, drops, 8)
	require.EqualValues(t, dropped(t, "access_destination"), drops[1].Packets, drops[1].Reason)
	require.Equal(t, "access_destination", drops[1].Reason)
	revoked := firewallOnly()
	revoked.Firewall.Granted = nil
	report := applied(t, executor, revoked)
	require.Equal(t, []string{"nftables set", "tracked flows"}, []string{report.Changes[0].Kind, report.Changes[1].Kind})
	require.Len(t, report.Changes, 2)
	require.False(t, inbound().IsValid())
	require.True(t, outbound().IsValid())
	require.Equal(t, netip.Addr{}, askUDP(t, "weft-hands-far", granted, udp(pod, 7000)))
}

// A grant ends while our pod is sending on a connection that it let in. The
// pod's next segment must not count as a flow that the pod opens.
func TestRevokedStream(t *testing.T) {
	world(t, plan.OverlayDevice)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, firewallOnly())
	inbound := openStream(t, "weft-hands-far", "100.70.0.9", "weft-hands-pod", "10.244.1.5:7001")
	outbound := openStream(t, "weft-hands-pod", "10.244.1.5", "weft-hands-far", "100.70.0.9:7001")
	require.NoError(t, inbound(time.Second))
	require.NoError(t, outbound(time.Second))

	revoked := firewallOnly()
	revoked.Firewall.Granted = nil
	applied(t, executor, revoked)
	require.Error(t, inbound(time.Second))
	require.NoError(t, outbound(time.Second))
}

// A grant ends together with a change of the rules, as by an upgrade.
func TestRevokedWithNewTable(t *testing.T) {
	world(t, plan.OverlayDevice)
	serveAll(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, firewallOnly())
	inbound := openUDP(t, "weft-hands-far", "100.70.0.9", "10.244.1.5:7000")
	require.True(t, inbound().IsValid())

	revoked := firewallOnly()
	revoked.Firewall.Granted = nil
	revoked.Firewall.OverlayPort++
	report := applied(t, executor, revoked)
	require.Equal(t, "nftables table", report.Changes[0].Kind)
	require.False(t, inbound().IsValid())
}

// openStream connects from one namespace to another, whose end sends all the
// time. The function throws away what has arrived, sends a byte, and waits for
// the byte that says that it has come.
func openStream(t *testing.T, namespace, source, serverNamespace, server string) func(time.Duration) error {
	t.Helper()
	var listener net.Listener
	inNamespace(t, serverNamespace, func() {
		var err error
		listener, err = net.Listen("tcp4", server)
		require.NoError(t, err)
	})
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		go func() {
			for buffer := make([]byte, 1); ; {
				if _, err := connection.Read(buffer); err != nil {
					return
				}
				_, _ = connection.Write([]byte("!"))
			}
		}()
		for {
			if _, err := connection.Write([]byte(".")); err != nil {
				return
			}
			time.Sleep(time.Millisecond) // the pace of a stream
		}
	}()
	var connection net.Conn
	inNamespace(t, namespace, func() {
		var err error
		connection, err = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).Dial("tcp4", server)
		require.NoError(t, err)
	})
	t.Cleanup(func() { _ = connection.Close() })
	return func(patience time.Duration) error {
		if _, err := connection.Write([]byte("?")); err != nil {
			return err
		}
		if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		for buffer := make([]byte, 1); buffer[0] != '!'; {
			if _, err := connection.Read(buffer); err != nil {
				return err
			}
		}
		return nil
	}
}

// serveAll answers on port 7000 of the pod and of every remote pod.
func serveAll(t *testing.T) {
	t.Helper()
	serveUDP(t, "weft-hands-pod", "10.244.1.5:7000")
	for _, remote := range []string{"100.70.0.9", "100.71.0.9", "100.99.0.9"} {
		serveUDP(t, "weft-hands-far", udp(remote, 7000))
	}
}

// sendACK sends a lone TCP segment with ACK set.
func sendACK(t *testing.T, source, destination string) {
	socket, err := net.ListenPacket("ip4:tcp", source)
	require.NoError(t, err)
	defer socket.Close()
	segment := make([]byte, 20)
	segment[1], segment[3] = 99, 80 // ports
	segment[12], segment[13] = 5<<4, 0x10
	_, err = socket.WriteTo(segment, &net.IPAddr{IP: net.ParseIP(destination)})
	require.NoError(t, err)
}

// The overlay port is for the cluster's nodes, untracked; strangers and pods are
// kept away.
func TestOverlayGuard(t *testing.T) {
	world(t, "weft-hands-u")
	serveUDP(t, "", "192.0.2.10:4797")
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, firewallOnly())
	run(t, "conntrack -F 2>/dev/null")

	require.True(t, askUDP(t, "weft-hands-far", "192.0.2.11", udp("192.0.2.10", 4797)).IsValid(), "a node")
	require.Zero(t, dropped(t, "overlay_stranger"))
	require.False(t, askUDP(t, "weft-hands-far", "192.0.2.1", udp("192.0.2.10", 4797)).IsValid(), "a stranger")
	require.Equal(t, 1, dropped(t, "overlay_stranger"))
	require.False(t, askUDP(t, "weft-hands-pod", "10.244.1.5", udp("192.0.2.10", 4797)).IsValid(), "a pod of this node")
	require.Equal(t, 2, dropped(t, "overlay_stranger"))
	require.False(t, askUDP(t, "weft-hands-pod", "10.244.1.5", udp("192.0.2.11", 4797)).IsValid(), "a pod to another node")
	require.Equal(t, 1, dropped(t, "overlay_forward"))
	require.NotContains(t, run(t, "conntrack -L -p udp 2>/dev/null"), "dport=4797 src=192.0.2.10", "the overlay is not tracked")
}

// A flood of handshake initiations is limited per source; bulk traffic on the
// same port never is.
func TestInitiationRate(t *testing.T) {
	world(t, "weft-hands-u")
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, firewallOnly())
	var socket net.Conn
	inNamespace(t, "weft-hands-far", func() {
		var err error
		socket, err = net.Dial("udp4", "192.0.2.10:51847")
		require.NoError(t, err)
	})
	defer socket.Close()
	send := func(count, size int, kind byte) {
		payload := make([]byte, size)
		payload[0] = kind
		for range count {
			_, _ = socket.Write(payload) // refused by ICMP now and then: nobody listens
		}
	}
	send(5000, 1400, 4)
	send(5000, 148, 4)
	send(5000, 92, 2)
	require.Zero(t, dropped(t, "initiation_rate"))
	send(5000, 148, 1)
	require.Greater(t, dropped(t, "initiation_rate"), 1000)
}
