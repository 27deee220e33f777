package agentapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// acceptPause is the wait after a failed accept, such as with no file
// descriptor left.
const acceptPause = 100 * time.Millisecond

// serveChannel accepts channels from neighbors' gateways and splices them to
// the controller, until the listener closes. WireGuard has checked that a
// source address is the peer's own.
func (s *Server) serveChannel(ctx context.Context, listener net.Listener) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			wait(ctx, nil, time.After(acceptPause))
			continue
		}
		end, err := s.admit(conn)
		if err != nil {
			s.options.Log.Debug("refused a channel", "from", conn.RemoteAddr(), "reason", err)
			conn.Close()
			continue
		}
		group.Go(func() {
			defer end.leave()
			defer conn.Close()
			s.toController(ctx, end, conn)
		})
	}
}

func (s *Server) admit(conn net.Conn) (*spliceEnd, error) {
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	state, _ := s.current()
	if !slices.Contains(state.Peers, from) {
		return nil, errors.New("not the channel address of a known neighbor")
	}
	return s.splices.enter(from)
}

func (s *Server) toController(ctx context.Context, end *spliceEnd, conn net.Conn) {
	state, _ := s.current()
	if state.ChannelEndpoint == "" {
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}
	controller, err := dialer.DialContext(ctx, "tcp", state.ChannelEndpoint)
	if err != nil {
		s.options.Log.Warn("cannot reach the controller for a neighbor's channel",
			"endpoint", state.ChannelEndpoint, "neighbor", end.peer, "error", err)
		return
	}
	defer controller.Close()
	end.splice(conn.(halfCloser), controller.(halfCloser))
}

// limitedListener closes connections beyond its slots at once, so that a flood
// cannot exhaust the agent. Of those that have not proved who they are, one
// source may have freshLimit, so that a stranger cannot take the controller's.
type limitedListener struct {
	net.Listener
	slots chan struct{}

	mu    sync.Mutex
	fresh map[netip.Addr]int
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if limited := l.take(conn); limited != nil {
			return limited, nil
		}
		conn.Close()
	}
}

func (l *limitedListener) take(conn net.Conn) *limitedConn {
	source := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh[source] >= freshLimit {
		return nil
	}
	select {
	case l.slots <- struct{}{}:
	default:
		return nil
	}
	if l.fresh == nil {
		l.fresh = map[netip.Addr]int{}
	}
	l.fresh[source]++
	return &limitedConn{
		Conn:    conn,
		release: sync.OnceFunc(func() { <-l.slots }),
		proved: sync.OnceFunc(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.fresh[source]--; l.fresh[source] <= 0 {
				delete(l.fresh, source)
			}
		}),
	}
}

type limitedConn struct {
	net.Conn
	release, proved func()
}

func (c *limitedConn) Close() error {
	c.proved()
	c.release()
	return c.Conn.Close()
}

// authenticatedState is told of connections by the HTTP server: one that has
// sent a request is through the handshake, and so the controller's.
func authenticatedState(conn net.Conn, state http.ConnState) {
	if secured, ok := conn.(*tls.Conn); ok && state == http.StateActive {
		if limited, ok := secured.NetConn().(*limitedConn); ok {
			limited.proved()
		}
	}
}

// freshLimit bounds the connections of one source before their handshake.
const freshLimit = 32

// peerLimit and totalLimit bound the channels that one agent splices: a pair of
// controllers needs one, and a second while one replaces the other.
const (
	peerLimit  = 8
	totalLimit = 512
)

// splices are the running ones.
type splices struct {
	mu   sync.Mutex
	ends map[*spliceEnd]struct{}
}

// enter registers a splice towards a peer.
func (s *splices) enter(peer netip.Addr) (*spliceEnd, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0
	for e := range s.ends {
		if e.peer == peer {
			same++
		}
	}
	if same >= peerLimit || len(s.ends) >= totalLimit {
		return nil, errors.New("too many channels are open; close one first")
	}
	if s.ends == nil {
		s.ends = map[*spliceEnd]struct{}{}
	}
	e := &spliceEnd{all: s, peer: peer, stop: make(chan struct{})}
	s.ends[e] = struct{}{}
	return e, nil
}

// keep ends the splices of peers that are not wanted any more.
func (s *splices) keep(wanted func(netip.Addr) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.ends {
		if !wanted(e.peer) {
			e.end()
		}
	}
}
