package agentapi

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// acceptPause is the wait after a failed accept, such as with no file
// descriptor left.
const acceptPause = 100 * time.Millisecond

// serveChannel accepts channels from neighbors' gateways and splices them to the
// controller, or to another neighbor's gateway, until the listener closes.
// WireGuard has checked that a source address is the peer's own.
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
		from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		end, err := s.enter(passage{from: from})
		if err != nil {
			s.refuse(from, err)
			conn.Close()
			continue
		}
		group.Go(func() {
			defer end.leave()
			defer conn.Close()
			s.channel(ctx, end, conn)
		})
	}
}

func (s *Server) refuse(from netip.Addr, reason error) {
	s.options.Log.Debug("refused a channel", "from", from, "reason", reason)
}

// channel serves one connection of a neighbor's gateway.
func (s *Server) channel(ctx context.Context, end *spliceEnd, conn net.Conn) {
	stop := end.closing(ctx, conn)
	_ = conn.SetReadDeadline(time.Now().Add(s.patience))
	opening, err := readOpening(conn)
	stop()
	switch {
	case err != nil:
		s.refuse(end.passage.from, err)
	case opening.target.IsValid():
		s.forward(ctx, end, conn, opening)
	default:
		s.toController(ctx, end, opening.opened(conn))
	}
}

func (s *Server) toController(ctx context.Context, end *spliceEnd, near halfCloser) {
	state, _ := s.current()
	if state.ChannelEndpoint == "" {
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive}
	controller, err := dialer.DialContext(ctx, "tcp", state.ChannelEndpoint)
	if err != nil {
		s.options.Log.Warn("cannot reach the controller for a neighbor's channel",
			"endpoint", state.ChannelEndpoint, "neighbor", end.passage.from, "error", err)
		return
	}
	defer controller.Close()
	end.splice(near, controller.(halfCloser))
}

// forward splices a channel to another neighbor's gateway, as a hub does. It
// gives up the place among those for our controller.
func (s *Server) forward(ctx context.Context, end *spliceEnd, conn net.Conn, opening opening) {
	from := end.passage.from
	onward, err := s.enter(passage{from: from, to: opening.target})
	if err != nil {
		s.refuse(from, err)
		return
	}
	defer onward.leave()
	end.leave()
	far, err := s.dialTunnel(ctx, opening.target)
	if err != nil {
		s.options.Log.Debug("cannot forward a channel", "from", from, "to", opening.target, "error", err)
		return
	}
	defer far.Close()
	onward.splice(opening.opened(conn), far.(halfCloser))
}

// dialTunnel connects to the channel port of a neighbor's gateway from our own
// channel address.
func (s *Server) dialTunnel(ctx context.Context, to netip.Addr) (net.Conn, error) {
	state, _ := s.current()
	dialer := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: keepAlive,
		LocalAddr:       net.TCPAddrFromAddrPort(netip.AddrPortFrom(state.ChannelAddress, 0)),
	}
	return dialer.DialContext(ctx, "tcp", channelAt(to).String())
}
