package agentapi

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// relisten is the wait after a failed listen, for example while another
// process holds the port.
const relisten = time.Second

// keepAlive finds dead ends within half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// listen serves at the address that the state wants until the context ends.
// serve returns when its listener closes.
func (s *Server) listen(ctx context.Context, name string, want func(State) netip.AddrPort, serve func(context.Context, net.Listener)) {
	config := net.ListenConfig{Control: freeBind, KeepAliveConfig: keepAlive}
	for ctx.Err() == nil {
		state, changed := s.current()
		at := want(state)
		if !at.IsValid() {
			wait(ctx, changed, nil)
			continue
		}
		listener, err := config.Listen(ctx, "tcp", at.String())
		if err != nil {
			s.options.Log.Warn("cannot listen, will try again", "for", name, "at", at, "error", err)
			wait(ctx, changed, time.After(relisten))
			continue
		}
		s.serveWhile(ctx, listener, func() bool { return s.wants(want, at) }, serve)
	}
}

// serveWhile serves until the context ends or the address is no longer wanted.
func (s *Server) serveWhile(ctx context.Context, listener net.Listener, wanted func() bool, serve func(context.Context, net.Listener)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(ctx, listener)
	}()
	for {
		_, changed := s.current()
		if ctx.Err() != nil || !wanted() {
			break
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-done:
			return
		}
	}
	listener.Close()
	cancel()
	<-done
}

func (s *Server) wants(want func(State) netip.AddrPort, at netip.AddrPort) bool {
	state, _ := s.current()
	return want(state) == at
}

func wait(ctx context.Context, changed <-chan struct{}, after <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-changed:
	case <-after:
	}
}

// freeBind lets a socket listen at an address that comes later: the channel's
// comes with the lane.
func freeBind(network, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		if network == "tcp6" {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
		}
	})
	if err != nil {
		return err
	}
	return failed
}
