package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/traffic/bulk"
	"github.com/weft-fabric/weft/tools/traffic/echo"
	"github.com/weft-fabric/weft/tools/traffic/ping"
	"github.com/weft-fabric/weft/tools/traffic/steady"
	"github.com/weft-fabric/weft/tools/traffic/stream"
)

// Options of a server.
type Options struct {
	// Address to listen on; invalid means all.
	Address netip.Addr
	// BasePort that the offsets are added to; DefaultBasePort if zero.
	BasePort uint16
}

// Server holds the open sockets between Listen and Serve.
type Server struct {
	echoTCP, bulk, control net.Listener
	echoUDP, stream        *net.UDPConn
	watcher                *ping.Watcher
	receiver               *stream.Receiver
	streams                *jobs[stream.Sent]
	steady                 *jobs[steady.Report]
}

// Listen opens every socket, so that a server that Listen returned can be
// reached at once.
func Listen(opts Options) (*Server, error) {
	if !opts.Address.IsValid() {
		opts.Address = netip.IPv4Unspecified()
	}
	if opts.BasePort == 0 {
		opts.BasePort = DefaultBasePort
	}
	s := &Server{streams: newJobs[stream.Sent]("flow"), steady: newJobs[steady.Report]("connection")}
	if err := s.listen(opts); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) listen(opts Options) (err error) {
	at := func(offset uint16) netip.AddrPort { return netip.AddrPortFrom(opts.Address, opts.BasePort+offset) }
	for _, l := range []struct {
		listener *net.Listener
		offset   uint16
	}{{&s.echoTCP, EchoOffset}, {&s.bulk, BulkOffset}, {&s.control, ControlOffset}} {
		if *l.listener, err = net.Listen("tcp4", at(l.offset).String()); err != nil {
			return fmt.Errorf("listen on TCP %s: %w", at(l.offset), err)
		}
	}
	for _, c := range []struct {
		conn   **net.UDPConn
		offset uint16
	}{{&s.echoUDP, EchoOffset}, {&s.stream, StreamOffset}} {
		if *c.conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at(c.offset))); err != nil {
			return fmt.Errorf("listen on UDP %s: %w", at(c.offset), err)
		}
	}
	if s.receiver, err = stream.NewReceiver(s.stream); err != nil {
		return err
	}
	s.watcher, err = ping.Watch(opts.Address)
	return err
}

// Close closes every socket.
func (s *Server) Close() {
	var closers []io.Closer
	for _, l := range []net.Listener{s.echoTCP, s.bulk, s.control} {
		if l != nil {
			closers = append(closers, l)
		}
	}
	for _, c := range []*net.UDPConn{s.echoUDP, s.stream} {
		if c != nil {
			closers = append(closers, c)
		}
	}
	if s.watcher != nil {
		closers = append(closers, s.watcher)
	}
	for _, c := range closers {
		_ = c.Close()
	}
}

// ControlAddress is where the HTTP API listens.
func (s *Server) ControlAddress() net.Addr { return s.control.Addr() }

// Serve runs until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	web := &http.Server{
		Handler:           s.handler(ctx),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	context.AfterFunc(ctx, func() {
		_ = web.Close()
		s.Close()
	})
	group.Go(func() error { return echo.ServeTCP(ctx, s.echoTCP) })
	group.Go(func() error { return echo.ServeUDP(ctx, s.echoUDP) })
	group.Go(func() error { return bulk.Serve(ctx, s.bulk) })
	group.Go(func() error { return s.receiver.Run(ctx) })
	group.Go(func() error { return s.watcher.Run(ctx) })
	group.Go(func() error {
		if err := web.Serve(s.control); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
			return fmt.Errorf("serve the control API: %w", err)
		}
		return nil
	})
	return group.Wait()
}
