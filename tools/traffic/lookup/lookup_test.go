package lookup

import (
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// A server on the loopback device knows one service; its answers of more than
// one record are truncated over UDP. It counts questions.
type server struct {
	config *dns.ClientConfig
	asked  []string
}

func serve(t *testing.T) *server {
	t.Helper()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(packets.LocalAddr().String())
	require.NoError(t, err)
	listener, err := net.Listen("tcp4", packets.LocalAddr().String())
	require.NoError(t, err)
	s := &server{config: &dns.ClientConfig{
		Servers: []string{host}, Port: port, Search: []string{"demo.svc.cluster.local", "cluster.local"}, Ndots: 5, Timeout: 2, Attempts: 1,
	}}
	for _, d := range []*dns.Server{{PacketConn: packets}, {Listener: listener}} {
		started, ended := make(chan struct{}), make(chan error, 1)
		d.Handler, d.NotifyStartedFunc = s, func() { close(started) }
		go func() { ended <- d.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { require.NoError(t, d.Shutdown()); require.NoError(t, <-ended) })
	}
	return s
}

func (s *server) ServeDNS(w dns.ResponseWriter, request *dns.Msg) {
	name := request.Question[0].Name
	s.asked = append(s.asked, name)
	reply := new(dns.Msg).SetReply(request)
	add := func(text string) {
		rr, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		reply.Answer = append(reply.Answer, rr)
	}
	switch {
	case name == "echo.demo.svc.clusterset.local." && request.Question[0].Qtype == dns.TypeA:
		add(name + " 5 IN A 10.96.0.9")
		add(name + " 5 IN A 10.96.0.7")
		if _, packets := w.RemoteAddr().(*net.UDPAddr); packets {
			reply.Answer, reply.Truncated = nil, true
		}
	case name == "_echo._tcp.echo.demo.svc.clusterset.local.":
		add(name + " 5 IN SRV 0 1 7000 echo.demo.svc.clusterset.local.")
	case name == "hung.echo.demo.svc.clusterset.local.":
		reply.Rcode = dns.RcodeServerFailure
	case name != "echo.demo.svc.clusterset.local.":
		reply.Rcode = dns.RcodeNameError
	}
	_ = w.WriteMsg(reply)
}

// The name has fewer dots than ndots, so it is tried as it is at last.
func TestSearchList(t *testing.T) {
	s := serve(t)
	got, err := run(t.Context(), s.config, Request{Name: "echo.demo.svc.clusterset.local"})
	require.NoError(t, err)
	require.Equal(t, "echo.demo.svc.clusterset.local.", got.Name)
	require.Equal(t, "NOERROR", got.Code)
	require.Equal(t, []string{"10.96.0.7", "10.96.0.9"}, got.Records, "all of a truncated answer, in order")
	require.Equal(t, []string{
		"echo.demo.svc.clusterset.local.demo.svc.cluster.local.", "echo.demo.svc.clusterset.local.cluster.local.",
		"echo.demo.svc.clusterset.local.", "echo.demo.svc.clusterset.local.", // the second over TCP
	}, s.asked)
}

func TestService(t *testing.T) {
	got, err := run(t.Context(), serve(t).config, Request{Name: "_echo._tcp.echo.demo.svc.clusterset.local.", Type: "SRV"})
	require.NoError(t, err)
	require.Equal(t, []string{"0 1 7000 echo.demo.svc.clusterset.local."}, got.Records)
}

// That a name does not exist is an answer.
func TestNoSuchName(t *testing.T) {
	got, err := run(t.Context(), serve(t).config, Request{Name: "gone.demo.svc.clusterset.local."})
	require.NoError(t, err)
	require.Equal(t, "NXDOMAIN", got.Code)
	require.Empty(t, got.Records)
}

// A name of so many dots is tried as it is at first. That no server could tell is
// not made into "no such name" by the search list.
func TestServersThatFail(t *testing.T) {
	s := serve(t)
	got, err := run(t.Context(), s.config, Request{Name: "hung.echo.demo.svc.clusterset.local"})
	require.NoError(t, err)
	require.Equal(t, "hung.echo.demo.svc.clusterset.local.", s.asked[0])
	require.Len(t, s.asked, 3)
	require.Equal(t, "hung.echo.demo.svc.clusterset.local.", got.Name)
	require.Equal(t, "SERVFAIL", got.Code)
}

func TestWhatCannotBeAsked(t *testing.T) {
	config := &dns.ClientConfig{Servers: []string{"127.0.0.1"}, Port: "1", Attempts: 2, Timeout: 1}
	start := time.Now()
	for want, req := range map[string]Request{
		"no server answered": {Name: "echo.demo."},
		`"" is no domain`:    {},
		`"MX" are not asked`: {Name: "echo.demo.", Type: "MX"},
	} {
		_, err := run(t.Context(), config, req)
		require.ErrorContains(t, err, want)
	}
	require.Less(t, time.Since(start), 5*time.Second)
}
