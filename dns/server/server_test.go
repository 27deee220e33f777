package server

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dns/zone"
)

const web = "web.shop.svc.clusterset.local."

// running is a server on the loopback device, and what its zone holds.
type running struct {
	*Server
	address string
	index   atomic.Pointer[zone.Index]
	metrics *prometheus.Registry
	stop    func() error
}

func start(t *testing.T, limits Limits) *running {
	t.Helper()
	r := &running{metrics: prometheus.NewRegistry()}
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	r.Server, err = New(ctx, "127.0.0.1:0", r.index.Load, limits, r.metrics)
	require.NoError(t, err)
	r.address = r.Address().String()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

func (r *running) hold(addresses ...string) {
	service := zone.Service{Key: zone.Key{Namespace: "shop", Name: "web"}}
	for _, address := range addresses {
		service.Addresses = append(service.Addresses, netip.MustParseAddr(address))
	}
	r.index.Store(zone.Empty(1).Change([]zone.Service{service}, nil))
}

func (r *running) ask(t *testing.T, network, name string, kind uint16) *dns.Msg {
	t.Helper()
	client := dns.Client{Net: network, Timeout: 5 * time.Second, UDPSize: dns.MinMsgSize}
	reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, kind), r.address)
	require.NoError(t, err)
	return reply
}

// count returns what the counter of that name shows for those values of its
// labels, which are sorted by the labels' names.
func (r *running) count(t *testing.T, name string, values ...string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var got []string
			for _, label := range metric.GetLabel() {
				got = append(got, label.GetValue())
			}
			if family.GetName() == name && slices.Equal(got, values) {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// awaitOne waits until a counter, which moves after a reply is on its way, is 1.
func (r *running) awaitOne(t *testing.T, name string, values ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return r.count(t, name, values...) == 1 }, 5*time.Second, 5*time.Millisecond)
}

// Before anything is known: SERVFAIL, so that the client asks the next server.
// Then answers, of the newest index at once, over both transports.
func TestAnswersOverBothTransports(t *testing.T) {
	r := start(t, Limits{})
	for _, network := range []string{"udp", "tcp"} {
		r.index.Store(nil)
		require.Equal(t, dns.RcodeServerFailure, r.ask(t, network, web, dns.TypeA).Rcode)
		r.hold("10.96.7.7")
		reply := r.ask(t, network, web, dns.TypeA)
		require.Equal(t, dns.RcodeSuccess, reply.Rcode)
		require.Equal(t, "10.96.7.7", reply.Answer[0].(*dns.A).A.String())
		require.Equal(t, dns.RcodeNameError, r.ask(t, network, "no."+web, dns.TypeA).Rcode)
		require.Equal(t, dns.RcodeRefused, r.ask(t, network, "kubernetes.default.svc.cluster.local.", dns.TypeA).Rcode)
	}
	r.awaitOne(t, "weft_dns_answers_total", "NXDOMAIN", "tcp")
}

// An answer that is too long for UDP has TC; the client gets it all over TCP.
func TestTruncated(t *testing.T) {
	r := start(t, Limits{})
	var addresses []string
	address := netip.MustParseAddr("10.0.0.0")
	for range 200 {
		address = address.Next()
		addresses = append(addresses, address.String())
	}
	r.hold(addresses...)
	reply := r.ask(t, "udp", web, dns.TypeA)
	require.True(t, reply.Truncated)
	require.Greater(t, len(reply.Answer), 20)
	reply = r.ask(t, "tcp", web, dns.TypeA)
	require.False(t, reply.Truncated)
	require.Len(t, reply.Answer, 200)
	r.awaitOne(t, "weft_dns_truncations_total")
}

// Junk is counted and harms nobody.
func TestMalformedRequests(t *testing.T) {
	r := start(t, Limits{})
	r.hold("10.96.7.7")
	conn, err := net.Dial("udp", r.address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("no header"))
	require.NoError(t, err)
	r.awaitOne(t, "weft_dns_drops_total", "malformed", "udp")
	require.Equal(t, dns.RcodeSuccess, r.ask(t, "udp", web, dns.TypeA).Rcode)
}

// While all slots are taken, UDP requests are dropped and connections closed;
// afterwards it answers again.
func TestOverload(t *testing.T) {
	r := start(t, Limits{InFlight: 1})
	r.hold("10.96.7.7")
	r.handler.slots <- struct{}{}
	_, _, err := (&dns.Client{Net: "tcp", Timeout: 5 * time.Second}).Exchange(new(dns.Msg).SetQuestion(web, dns.TypeA), r.address)
	require.Error(t, err)
	_, _, err = (&dns.Client{Timeout: 100 * time.Millisecond}).Exchange(new(dns.Msg).SetQuestion(web, dns.TypeA), r.address)
	require.Error(t, err)
	for _, transport := range []string{"udp", "tcp"} {
		r.awaitOne(t, "weft_dns_drops_total", "overload", transport)
	}
	<-r.handler.slots
	require.Equal(t, dns.RcodeSuccess, r.ask(t, "udp", web, dns.TypeA).Rcode)
	// The slot is free a moment after the answer is out.
	require.Eventually(t, func() bool { return len(r.handler.slots) == 0 }, 5*time.Second, time.Millisecond)
	require.Equal(t, dns.RcodeSuccess, r.ask(t, "tcp", web, dns.TypeA).Rcode)
}

// A client that holds every connection and says nothing is cut off after the
// idle time, and the next one is served.
func TestIdleConnections(t *testing.T) {
	r := start(t, Limits{Connections: 1, Idle: 50 * time.Millisecond})
	r.hold("10.96.7.7")
	client := dns.Client{Net: "tcp", Timeout: 10 * time.Second}
	silent, err := client.Dial(r.address)
	require.NoError(t, err)
	defer silent.Close()
	_, _, err = client.ExchangeWithConn(new(dns.Msg).SetQuestion(web, dns.TypeA), silent)
	require.NoError(t, err)
	require.Equal(t, dns.RcodeSuccess, r.ask(t, "tcp", web, dns.TypeA).Rcode, "waits for the silent one to be cut off")
}

// Run ends with its context, at once or in use, and frees the port.
func TestStop(t *testing.T) {
	r := start(t, Limits{})
	r.hold("10.96.7.7")
	require.Equal(t, dns.RcodeSuccess, r.ask(t, "tcp", web, dns.TypeA).Rcode)
	require.NoError(t, r.stop())
	again, err := New(t.Context(), r.address, r.index.Load, Limits{}, prometheus.NewRegistry())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, again.Run(ctx))
}

// A port that is taken is an error that names it.
func TestPortTaken(t *testing.T) {
	r := start(t, Limits{})
	_, err := New(t.Context(), r.address, r.index.Load, Limits{}, prometheus.NewRegistry())
	require.ErrorContains(t, err, r.address)
}
