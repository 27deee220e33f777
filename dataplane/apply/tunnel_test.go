package apply_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/lane/isolate"
	"github.com/weft-fabric/weft/dataplane/plan"
)

const farConfig = "WEFT_TEST_FAR_CONFIG"

// farWireguard is a WireGuard that knows nothing of Weft: device far0,
// configured by the environment.
func farWireguard() error {
	far, err := tun.CreateTUN("far0", 1440)
	if err != nil {
		return err
	}
	wg := device.NewDevice(far, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, "far: "))
	if err := wg.IpcSet(os.Getenv(farConfig)); err != nil {
		return err
	}
	<-wg.Wait()
	return nil
}

// startFar runs a WireGuard peer at 192.0.2.1 with the channel address fd79::2.
// It dials the node if told to. The function ends it.
func startFar(t *testing.T, key, node wgtypes.Key, port int, dials bool) func() {
	t.Helper()
	command := isolate.Helper("far", "weft-hands-far")
	config := fmt.Sprintf("private_key=%x\nlisten_port=%d\npublic_key=%x\nallowed_ip=fd79::1/128\n", key[:], port, node[:])
	if dials {
		config += "endpoint=192.0.2.10:51847\npersistent_keepalive_interval=1\n"
	}
	command.Env = append(command.Env, farConfig+"="+config)
	require.NoError(t, command.Start())
	stop := func() { kill(command) }
	t.Cleanup(stop)
	run(t, "for i in $(seq 100); do ip -n weft-hands-far link set far0 up 2>/dev/null && break; sleep 0.02; done")
	run(t, "ip -n weft-hands-far address add fd79::2/128 dev far0 nodad && ip -n weft-hands-far route add fd79::1/128 dev far0")
	return stop
}

// lanePlan is a gateway without overlay and with the far end as its one peer.
func lanePlan(far wgtypes.Key, endpoints ...string) plan.Plan {
	p := gatewayPlan()
	p.Overlay = nil
	p.Routing.Routes = nil
	p.Lanes[0].Peers = p.Lanes[0].Peers[:1]
	p.Lanes[0].Peers[0].PublicKey = far
	p.Lanes[0].Peers[0].Endpoints = endpoints
	return p
}

// listenTCP says hello to whoever connects.
func listenTCP(t *testing.T, namespace, address string) {
	t.Helper()
	var listener net.Listener
	listen := func() {
		var err error
		listener, err = net.Listen("tcp6", address)
		require.NoError(t, err)
	}
	if namespace == "" {
		listen()
	} else {
		inNamespace(t, namespace, listen)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = client.Write([]byte("hello"))
			_ = client.Close()
		}
	}()
}

// greets says whether somebody at the address says hello within the time.
func greets(t *testing.T, namespace, address string, within time.Duration) bool {
	t.Helper()
	var client net.Conn
	var err error
	dial := func() { client, err = net.DialTimeout("tcp6", address, within) }
	if namespace == "" {
		dial()
	} else {
		inNamespace(t, namespace, dial)
	}
	if err != nil {
		return false
	}
	defer client.Close()
	_ = client.SetReadDeadline(time.Now().Add(within))
	content, err := io.ReadAll(client)
	return err == nil && string(content) == "hello"
}

func newKey(t *testing.T) wgtypes.Key {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	require.NoError(t, err)
	return key
}

func onlyPeer(t *testing.T, executor *apply.Executor) apply.PeerState {
	t.Helper()
	lanes, err := executor.Lanes()
	require.NoError(t, err)
	require.Len(t, lanes, 1)
	require.Len(t, lanes[0].Peers, 1)
	return lanes[0].Peers[0]
}

// A real tunnel to a peer that has the only open port on our side: it dials us,
// roams, and is found again after our WireGuard has lost everything. In the
// tunnel, the channel's port is open both ways and nothing else is.
func TestTunnel(t *testing.T) {
	world(t, "weft-hands-u")
	// As on many nodes, IPv6 is switched off; the lane alone switches it on.
	run(t, "sysctl -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
	t.Cleanup(func() { run(t, "sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0") })
	startedWireguard := startWireguard(t)
	state := t.TempDir()
	executor := newExecutor(t, state)
	cleanUp(t, executor)
	farKey := newKey(t)
	p := lanePlan(farKey.PublicKey())
	node := wgtypes.Key(applied(t, executor, p).Lanes[0].PublicKey)

	stopFar := startFar(t, farKey, node, 40001, true)
	listenTCP(t, "", "[fd79::1]:9811")
	listenTCP(t, "", "[fd79::1]:10250")
	listenTCP(t, "weft-hands-far", "[fd79::2]:9811")
	require.True(t, greets(t, "weft-hands-far", "[fd79::1]:9811", 5*time.Second), "the channel, inbound")
	require.True(t, greets(t, "", "[fd79::2]:9811", 5*time.Second), "the channel, outbound")
	require.False(t, greets(t, "weft-hands-far", "[fd79::1]:10250", 500*time.Millisecond), "no other port")
	require.Equal(t, netip.MustParseAddrPort("192.0.2.1:40001"), onlyPeer(t, executor).Endpoint)
	require.NoError(t, executor.Maintain(t.Context()))

	// The peer's NAT gives it another port.
	stopFar()
	stopFar = startFar(t, farKey, node, 40002, true)
	require.True(t, greets(t, "weft-hands-far", "[fd79::1]:9811", 10*time.Second))
	require.Empty(t, applied(t, executor, p).Changes, "a roamed endpoint is left alone")
	require.NoError(t, executor.Maintain(t.Context()))

	// Our WireGuard restarts while the peer does not dial: we find it.
	stopFar()
	kill(startedWireguard)
	startWireguard(t)
	startFar(t, farKey, node, 40002, false)
	restarted := newExecutor(t, state)
	require.NotEmpty(t, applied(t, restarted, p).Changes)
	require.Equal(t, netip.MustParseAddrPort("192.0.2.1:40002"), onlyPeer(t, restarted).Endpoint)
	require.True(t, greets(t, "", "[fd79::2]:9811", 10*time.Second))
}

// A prefix that moves from one peer to another, and one that goes: no peer is
// ever rebuilt.
func TestAllowedIPs(t *testing.T) {
	startWireguard(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, gatewayPlan())
	p := gatewayPlan()
	peers := p.Lanes[0].Peers
	peers[0].AllowedIPs = []netip.Prefix{prefix("240.1.0.0/16"), prefix("fd79::2/128")}
	peers[1].AllowedIPs = []netip.Prefix{prefix("240.2.16.0/20"), prefix("fd79::3/128")}
	report := applied(t, executor, p)
	require.Equal(t, []apply.Change{
		{Action: "change", Kind: "peer", Object: wgtypes.Key{2}.String() + " on weft0"},
		{Action: "remove", Kind: "allowed IP", Object: "240.3.0.0/16 on weft0"},
	}, report.Changes)

	client, err := wgctrl.New()
	require.NoError(t, err)
	defer client.Close()
	device, err := client.Device("weft0")
	require.NoError(t, err)
	have := map[wgtypes.Key][]string{}
	for _, peer := range device.Peers {
		for _, network := range peer.AllowedIPs {
			have[peer.PublicKey] = append(have[peer.PublicKey], network.String())
		}
	}
	require.Len(t, have, 2, "the stand-in is gone")
	require.ElementsMatch(t, []string{"240.1.0.0/16", "fd79::2/128"}, have[wgtypes.Key{1}])
	require.ElementsMatch(t, []string{"240.2.16.0/20", "fd79::3/128"}, have[wgtypes.Key{2}])
	require.Empty(t, applied(t, executor, p).Changes)
}

// The peer's outer packets arrive in fragments: they are counted before they are
// put together, and the count reaches the link.
func TestOuterFragments(t *testing.T) {
	world(t, "weft-hands-u")
	startWireguard(t)
	state := t.TempDir()
	executor := newExecutor(t, state)
	cleanUp(t, executor)
	p := lanePlan(wgtypes.Key{1}, "192.0.2.1:51847")
	applied(t, executor, p)
	require.NoError(t, executor.Maintain(t.Context()))
	outerFragments := func() uint32 {
		var link bpfgen.BorderWeftLink
		require.NoError(t, pinned(t, "weft_links").Lookup(uint32(1), &link))
		return link.OuterFragments
	}
	require.Zero(t, outerFragments())

	var socket net.Conn
	inNamespace(t, "weft-hands-far", func() {
		var err error
		socket, err = net.Dial("udp4", "192.0.2.10:51847")
		require.NoError(t, err)
	})
	defer socket.Close()
	send := func(datagrams, size int) {
		for range datagrams {
			_, err := socket.Write(make([]byte, size))
			require.NoError(t, err)
		}
	}
	send(3, 4000)
	send(1, 1000)
	require.NoError(t, executor.Maintain(t.Context()))
	require.EqualValues(t, 3, outerFragments(), "one for each datagram that came in pieces")
	require.Empty(t, applied(t, executor, p).Changes, "the count is no difference")
	require.EqualValues(t, 3, outerFragments())

	run(t, "nft delete table inet weft") // another table counts from 0
	require.NotEmpty(t, applied(t, executor, p).Changes)
	send(2, 4000)
	require.NoError(t, executor.Maintain(t.Context()))
	require.EqualValues(t, 5, outerFragments())
	executor = newExecutor(t, state)
	applied(t, executor, p)
	require.NoError(t, executor.Maintain(t.Context()))
	require.EqualValues(t, 5, outerFragments(), "another agent has seen nothing new")
	send(1, 4000)
	require.NoError(t, executor.Maintain(t.Context()))
	require.EqualValues(t, 6, outerFragments())
}

// Without TCX, clsact does the same.
func TestClassicAttachment(t *testing.T) {
	startWireguard(t)
	state := t.TempDir()
	executor := newExecutor(t, state)
	cleanUp(t, executor)
	executor.ForceClassic()
	applied(t, executor, gatewayPlan())
	for _, direction := range []string{"ingress", "egress"} {
		require.Contains(t, run(t, "tc filter show dev weft0 %s", direction), "weft_border_"+direction)
		require.Contains(t, run(t, "tc filter show dev weft-vx %s", direction), "weft_overlay_"+direction)
	}
	restarted := newExecutor(t, state)
	restarted.ForceClassic()
	require.Empty(t, applied(t, restarted, gatewayPlan()).Changes)
	run(t, "tc filter del dev weft0 ingress")
	require.Equal(t, []apply.Change{{Action: "change", Kind: "program", Object: "weft0-ingress"}}, applied(t, restarted, gatewayPlan()).Changes)
	run(t, "tc qdisc del dev weft-vx clsact")
	require.Len(t, applied(t, restarted, gatewayPlan()).Changes, 2)
}

// What others do to our things is noticed at once; what we do settles.
func TestWatch(t *testing.T) {
	startWireguard(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, gatewayPlan())
	changed := executor.Watch(t.Context())
	quiet := func() {
		for {
			select {
			case <-changed:
			case <-time.After(200 * time.Millisecond):
				return
			}
		}
	}
	quiet()
	for _, damage := range []string{
		"ip link delete weft-vx", "ip route flush table 7077", "nft flush ruleset", "nft flush table inet weft", "ip address flush dev weft-vx",
	} {
		run(t, "%s", damage)
		select {
		case <-changed:
		case <-time.After(5 * time.Second):
			require.Fail(t, "not noticed", damage)
		}
		applied(t, executor, gatewayPlan())
		quiet()
	}
}
