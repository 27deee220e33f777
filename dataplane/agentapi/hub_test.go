package agentapi

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/agentclient"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// cluster is one gateway's agent and the controller's end of the channels.
type cluster struct {
	id      v1alpha1.Identity
	channel netip.Addr
	agent   *Server
	state   State
	manager *channel.Manager
	changes chan struct{}
}

// newCluster takes the loopback device for its lane. All gateways share it, so
// who reaches whom is what the agents allow.
func newCluster(t *testing.T, seed byte, api string) *cluster {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	c := &cluster{id: identityOf(key), changes: make(chan struct{}, 1)}
	c.channel = identity.ChannelAddress(c.id, 1)
	addChannelAddress(t, c.channel)
	certificate, err := identity.Certificate(key)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.state = State{Identity: c.id, Listen: netip.MustParseAddrPort(api), ChannelAddress: c.channel, ChannelEndpoint: listener.Addr().String()}
	c.agent = run(t, c.state)
	agents := []agentclient.Agent{{Node: "gateway", GatewayID: 1, Address: c.state.Listen, Certificate: c.agent.CertificateSHA256()}}
	timing := channel.DefaultTiming
	timing.HigherWaits, timing.Attempt, timing.BackoffMax = 300*time.Millisecond, 3*time.Second, 500*time.Millisecond
	c.manager = channel.New(channel.Options{
		Self: c.id, Certificate: certificate, Timing: timing, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Dialer: &agentclient.ChannelDialer{
			Client:   &agentclient.Client{Certificate: certificate},
			Gateways: func(context.Context) ([]agentclient.Agent, error) { return agents, nil },
		},
		Changed: func(v1alpha1.Identity) {
			select {
			case c.changes <- struct{}{}:
			default:
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = c.manager.Run(ctx, listener)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
	return c
}

func addChannelAddress(t *testing.T, address netip.Addr) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	a, err := netlink.ParseAddr(address.String() + "/128")
	require.NoError(t, err)
	require.NoError(t, netlink.AddrReplace(lo, a))
}

// tunnels says with whose gateways this one has a tunnel.
func (c *cluster) tunnels(others ...netip.Addr) {
	c.state.Peers = others
	c.agent.SetState(c.state)
}

func (c *cluster) until(t *testing.T, id v1alpha1.Identity, what string, ok func(channel.Status) bool) channel.Status {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		if s := c.manager.Status(id); ok(s) {
			return s
		}
		select {
		case <-c.changes:
		case <-deadline:
			require.FailNow(t, "never: "+what, "status %+v", c.manager.Status(id))
		}
	}
}

// a and b have tunnels to the hub alone. Their controllers find each other
// through it and prove to each other who they are; a tunnel between them comes
// and goes, and so does the grant.
func TestControllersMeetThroughAHub(t *testing.T) {
	a, b := newCluster(t, 1, "127.0.0.1:9810"), newCluster(t, 2, "127.0.0.2:9810")
	hubID := v1alpha1.Identity("the hub")
	hub := State{ChannelAddress: identity.ChannelAddress(hubID, 1), Peers: []netip.Addr{a.channel, b.channel}}
	addChannelAddress(t, hub.ChannelAddress)
	hub.Transit = TransitOf([]v1alpha1.Neighbor{neighbor(1, a.channel.String(), 2), neighbor(2, b.channel.String())})
	middle := run(t, hub)
	a.tunnels(hub.ChannelAddress)
	b.tunnels(hub.ChannelAddress)

	a.manager.SetPeer(channel.Peer{Identity: b.id, Say: channel.Snapshot{MTU: 1401}, Routes: []channel.Route{{Target: b.channel}, {Target: b.channel, Hub: hub.ChannelAddress}}})
	b.manager.SetPeer(channel.Peer{Identity: a.id, Say: channel.Snapshot{MTU: 1402}}) // it only accepts
	through := func(s channel.Status) bool { return s.Connected && s.Route.Hub == hub.ChannelAddress }
	directly := func(s channel.Status) bool { return s.Connected && !s.Route.Hub.IsValid() }
	a.until(t, b.id, "a hears b through the hub", func(s channel.Status) bool { return through(s) && s.Said.MTU == 1402 && s.Acknowledged })
	b.until(t, a.id, "b hears a", func(s channel.Status) bool { return s.Connected && s.Said.MTU == 1401 })

	granted := hub.Transit
	hub.Transit = Transit{}
	middle.SetState(hub)
	s := a.until(t, b.id, "the grant is gone", func(s channel.Status) bool { return !s.Connected && len(s.Problem) > 200 })
	require.Contains(t, s.Problem, "is not the channel of a known neighbor; through a hub: ")
	require.Contains(t, s.Problem, "does the hub forward between the two clusters")
	hub.Transit = granted
	middle.SetState(hub)
	a.until(t, b.id, "the grant is back", through)

	// A tunnel between the two: what is through the hub stands until it breaks.
	a.tunnels(hub.ChannelAddress, b.channel)
	b.tunnels(hub.ChannelAddress, a.channel)
	middle.SetState(State{})
	a.until(t, b.id, "the hub is gone", directly)
	middle.SetState(hub)
	a.tunnels(hub.ChannelAddress)
	began := time.Now()
	a.until(t, b.id, "the tunnel is gone", through)
	require.Less(t, time.Since(began), 5*time.Second)

	// A hub that splices to somebody else than it was asked for gets nowhere.
	third := identityOf(newKey(t))
	a.manager.SetPeer(channel.Peer{Identity: third, Routes: []channel.Route{{Target: b.channel, Hub: hub.ChannelAddress}}})
	s = a.until(t, third, "another answers", func(s channel.Status) bool { return s.Problem != "" })
	require.Contains(t, s.Problem, "the far end has identity "+string(b.id))
}
