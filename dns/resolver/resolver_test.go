package resolver

import (
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dns/zone"
)

// serve answers on the loopback device as a cluster's DNS might.
func serve(t *testing.T, handler dns.HandlerFunc) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	started := make(chan struct{})
	server := &dns.Server{PacketConn: conn, Handler: handler, NotifyStartedFunc: func() { close(started) }}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { require.NoError(t, server.Shutdown()); require.NoError(t, <-ended) })
	return conn.LocalAddr().String()
}

func forwarding(w dns.ResponseWriter, request *dns.Msg) {
	_ = w.WriteMsg(zone.Reply(zone.Empty(1), request, zone.UDP))
}

func ignorant(w dns.ResponseWriter, request *dns.Msg) {
	_ = w.WriteMsg(new(dns.Msg).SetRcode(request, dns.RcodeNameError))
}

// A server that forwards the zone is right every time.
func TestForwarded(t *testing.T) {
	server := serve(t, forwarding)
	require.Equal(t, Report{Servers: []string{server}, Asked: tries, Right: tries}, Ask(t.Context(), []string{server}))
}

// Of several servers behind one address, one does not forward yet.
func TestForwardedByHalf(t *testing.T) {
	var count atomic.Int32
	server := serve(t, func(w dns.ResponseWriter, request *dns.Msg) {
		if count.Add(1)%2 == 0 {
			ignorant(w, request)
			return
		}
		forwarding(w, request)
	})
	got := Ask(t.Context(), []string{server})
	require.False(t, got.OK())
	require.Equal(t, tries/2, got.Right)
	require.Contains(t, got.Problem, "NXDOMAIN for dns-version.clusterset.local.")
}

// Another word than the version, nobody at the address, nobody to ask.
func TestNotForwarded(t *testing.T) {
	other := serve(t, func(w dns.ResponseWriter, request *dns.Msg) {
		reply := new(dns.Msg).SetReply(request)
		rr, _ := dns.NewRR(zone.VersionName + ` 5 IN TXT "9"`)
		reply.Answer = []dns.RR{rr}
		_ = w.WriteMsg(reply)
	})
	require.Contains(t, Ask(t.Context(), []string{other}).Problem, "without the version 1.0.0")

	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	got := Ask(t.Context(), []string{gone.LocalAddr().String()})
	require.Equal(t, 1, got.Asked, "asked once only")
	require.Contains(t, got.Problem, "gives no answer")

	require.False(t, Ask(t.Context(), nil).OK())
}

func TestServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "search shop.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\nnameserver fd00::10\nnameserver 10.0.0.1\nnameserver 10.0.0.2\noptions ndots:5\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	servers, err := Servers(path)
	require.NoError(t, err)
	require.Equal(t, []string{"10.96.0.10:53", "[fd00::10]:53", "10.0.0.1:53"}, servers)
	_, err = Servers(path + "x")
	require.ErrorContains(t, err, "read the DNS servers")
}
