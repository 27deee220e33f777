package agentapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

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
