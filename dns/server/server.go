// Package server puts the zone on UDP and TCP sockets. Everything that a sender
// may take up is bounded: replies under way, connections, their time.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/dns/zone"
)

// Limits of what senders may take up. A zero field means its default.
type Limits struct {
	// InFlight bounds the replies under way, default 1024. Beyond, UDP requests are
	// dropped and TCP connections closed.
	InFlight int
	// Connections bounds TCP connections, default 256. Others wait to be accepted.
	Connections int
	// Idle is how long a connection may say nothing, default 5 s.
	Idle time.Duration
}

const (
	defaultInFlight    = 1024
	defaultConnections = 256
	defaultIdle        = 5 * time.Second
	// ioTimeout bounds the first read of a connection and each write.
	ioTimeout = 2 * time.Second
	// perConnection requests are answered on one connection.
	perConnection = 1000
	// largestRequest in bytes over UDP.
	largestRequest = 1232
	shutdownLimit  = 2 * time.Second
)

func (l Limits) withDefaults() Limits {
	if l.InFlight == 0 {
		l.InFlight = defaultInFlight
	}
	if l.Connections == 0 {
		l.Connections = defaultConnections
	}
	if l.Idle == 0 {
		l.Idle = defaultIdle
	}
	return l
}

// Server has its sockets and waits for Run.
type Server struct {
	udp     net.PacketConn
	tcp     net.Listener
	limits  Limits
	handler *handler
}

// New opens the sockets on address and registers the metrics. index returns what
// the zone holds at the moment; nil until that is known.
func New(ctx context.Context, address string, index func() *zone.Index, limits Limits, registry prometheus.Registerer) (*Server, error) {
	limits = limits.withDefaults()
	metrics, err := newMetrics(registry)
	if err != nil {
		return nil, err
	}
	udp, tcp, err := listen(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Server{
		udp: udp, tcp: netutil.LimitListener(tcp, limits.Connections), limits: limits,
		handler: &handler{index: index, slots: make(chan struct{}, limits.InFlight), metrics: metrics},
	}, nil
}

// Address that both sockets have.
func (s *Server) Address() net.Addr { return s.tcp.Addr() }

// listen opens both sockets on one port, also where the system chooses it.
func listen(ctx context.Context, address string) (net.PacketConn, net.Listener, error) {
	var config net.ListenConfig
	tcp, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for DNS over TCP: %w", err)
	}
	udp, err := config.ListenPacket(ctx, "udp", tcp.Addr().String())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen for DNS over UDP: %w", err), tcp.Close())
	}
	return udp, tcp, nil
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serve(ctx, &dns.Server{PacketConn: s.udp, UDPSize: largestRequest}, zone.UDP) })
	group.Go(func() error {
		return s.serve(ctx, &dns.Server{Listener: s.tcp, MaxTCPQueries: perConnection}, zone.TCP)
	})
	return group.Wait()
}

func (s *Server) serve(ctx context.Context, server *dns.Server, transport zone.Transport) error {
	started, ended := make(chan struct{}), make(chan struct{})
	server.Handler = s.handler.over(transport)
	server.ReadTimeout, server.WriteTimeout = ioTimeout, ioTimeout
	server.IdleTimeout = func() time.Duration { return s.limits.Idle }
	server.NotifyStartedFunc = sync.OnceFunc(func() { close(started) })
	server.MsgInvalidFunc = func([]byte, error) { s.handler.metrics.dropped(transport, malformed) }
	var stopping sync.WaitGroup
	stopping.Go(func() { stop(ctx, server, started, ended) })
	err := server.ActivateAndServe()
	close(ended)
	stopping.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("answer DNS over %s: %w", transport, err)
	}
	return nil
}

// stop shuts the server down once ctx ends. One that never started cannot be.
func stop(ctx context.Context, server *dns.Server, started, ended <-chan struct{}) {
	select {
	case <-started:
	case <-ended:
		return
	}
	select {
	case <-ctx.Done():
	case <-ended:
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
	defer cancel()
	// What fails here is the wait for the last clients, not the end of the server.
	_ = server.ShutdownContext(bounded)
}
