package agentapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// hello is how a TLS connection begins.
const hello = "\x16\x03\x01 and so on"

// hubState is a gateway between the clusters of peerChannel and strangerChannel.
func hubState(transit ...int32) State {
	return State{
		ChannelAddress: ownChannel, Peers: []netip.Addr{peerChannel, strangerChannel}, ChannelEndpoint: "127.0.0.1:9443",
		Transit: TransitOf([]v1alpha1.Neighbor{neighbor(1, peerChannel.String(), transit...), neighbor(2, strangerChannel.String())}),
	}
}

// dialFrom connects to the gateway under test from a neighbor's channel address
// and says something.
func dialFrom(t *testing.T, source netip.Addr, says string) net.Conn {
	t.Helper()
	dialer := net.Dialer{Timeout: time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
	conn, err := dialer.Dial("tcp", channelAt(ownChannel).String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = io.WriteString(conn, says)
	require.NoError(t, err)
	return conn
}

func requireClosed(t *testing.T, conn net.Conn, why string) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err, why)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), why)
}

func requireReads(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// Neighbor's gateway → tunnel → this gateway → tunnel → another neighbor's, which
// sees a connection of ours without the preamble; until the grant goes.
func TestHubForwardsWhereTransitIsGranted(t *testing.T) {
	s := run(t, hubState(2))
	requireListens(t, channelAt(ownChannel).String())
	controller := serve(t, "127.0.0.1:9443")
	far := serve(t, channelAt(strangerChannel).String())

	conn := dialFrom(t, peerChannel, string(preamble(strangerChannel))+hello)
	end := <-far
	require.Equal(t, ownChannel.String(), end.RemoteAddr().(*net.TCPAddr).IP.String())
	requireReads(t, end, hello)
	_, err := io.WriteString(end, "answer")
	require.NoError(t, err)
	requireReads(t, conn, "answer")

	// A channel of the same neighbor for our own controller is none of this.
	dialFrom(t, peerChannel, hello)
	requireReads(t, <-controller, hello)

	open := []net.Conn{conn}
	for range pairLimit - 1 {
		open = append(open, dialFrom(t, peerChannel, string(preamble(strangerChannel))+hello))
		<-far
	}
	requireClosed(t, dialFrom(t, peerChannel, string(preamble(strangerChannel))+hello), "more than a pair may have")

	s.SetState(hubState())
	for _, c := range open {
		requireClosed(t, c, "the grant is gone")
	}
	requireClosed(t, dialFrom(t, peerChannel, string(preamble(strangerChannel))+hello), "and does not come back by itself")
	s.SetState(hubState(2))
	dialFrom(t, peerChannel, string(preamble(strangerChannel))+hello)
	requireReads(t, <-far, hello)
	require.Empty(t, far)
	require.Empty(t, controller)
}

// What is not allowed ends the connection; neither the controller nor anybody
// else hears of it.
func TestHubRefuses(t *testing.T) {
	run(t, hubState(2), func(s *Server) { s.patience = 100 * time.Millisecond })
	requireListens(t, channelAt(ownChannel).String())
	controller := serve(t, "127.0.0.1:9443")
	far := serve(t, channelAt(strangerChannel).String())
	self := serve(t, channelAt(peerChannel).String())
	for name, says := range map[string]string{
		"to itself":                string(preamble(peerChannel)) + hello,
		"to ourselves":             string(preamble(ownChannel)) + hello,
		"to nobody":                string(preamble(netip.MustParseAddr("fd79::9"))) + hello,
		"anywhere":                 string(preamble(netip.MustParseAddr("::1"))) + hello,
		"through two hubs":         string(preamble(strangerChannel)) + string(preamble(peerChannel)) + hello,
		"no TLS":                   string(preamble(strangerChannel)) + "GET / HTTP/1.1",
		"silence":                  "",
		"silence in the preamble":  string(preamble(strangerChannel))[:20],
		"silence after a preamble": string(preamble(strangerChannel)),
	} {
		t.Run(name, func(t *testing.T) {
			requireClosed(t, dialFrom(t, peerChannel, says), name)
		})
	}
	require.Empty(t, controller)
	require.Empty(t, far)
	require.Empty(t, self)
}

// Controller → agent API (CONNECT with a hub) → tunnel → the hub's gateway, which
// is told the target first.
func TestConnectThroughAHub(t *testing.T) {
	controller := newKey(t)
	state := State{Identity: identityOf(controller), Listen: apiAddress, ChannelAddress: ownChannel, Peers: []netip.Addr{peerChannel}}
	s := run(t, state)
	hub := serve(t, channelAt(peerChannel).String())
	ask := func(target, hub string) (*http.Response, net.Conn) {
		conn, err := dialAPI(t, s, controller)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		response, _, err := request(conn, fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\n\r\n", target, target, agent.HubHeader, hub))
		require.NoError(t, err)
		return response, conn
	}
	for name, test := range map[string][2]string{
		"hub unknown":       {"[fd79::99]:9811", "fd79::c"},
		"hub is nonsense":   {"[fd79::99]:9811", "c"},
		"target elsewhere":  {"[fd78::99]:9811", "fd79::b"},
		"target's port":     {"[fd79::99]:22", "fd79::b"},
		"target is the hub": {"[fd79::b]:9811", "fd79::b"},
		"target with zone":  {"[fd79::99%lo]:9811", "fd79::b"},
		"hub with zone":     {"[fd79::99]:9811", "fd79::b%lo"},
	} {
		response, _ := ask(test[0], test[1])
		require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, response.StatusCode, name)
	}
	require.Empty(t, hub)

	response, conn := ask("[fd79::99]:9811", "fd79::b")
	require.Equal(t, http.StatusOK, response.StatusCode)
	gateway := <-hub
	defer gateway.Close()
	require.Equal(t, ownChannel.String(), gateway.RemoteAddr().(*net.TCPAddr).IP.String())
	_, err := io.WriteString(conn, hello)
	require.NoError(t, err)
	requireReads(t, gateway, string(preamble(netip.MustParseAddr("fd79::99")))+hello)

	state.Peers = nil
	s.SetState(state)
	requireClosed(t, conn, "the hub is gone")
}
