package agentapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// connect opens a channel to another cluster's gateway for the controller.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	passage, err := requested(r.Host, r.Header.Get(agent.HubHeader))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	end, err := s.enter(passage)
	if err != nil {
		code := http.StatusServiceUnavailable
		if errors.As(err, &refusal{}) {
			code = http.StatusForbidden
		}
		http.Error(w, err.Error(), code)
		return
	}
	defer end.leave()
	far, err := s.dial(r.Context(), passage)
	if err != nil {
		http.Error(w, fmt.Sprintf("dial the neighbor's gateway through the tunnel: %v", err), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer near.Close()
	// The deadlines of the request must not end the channel.
	_ = near.SetDeadline(time.Time{})
	if _, err := near.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return
	}
	end.splice(readsFirst{near.(halfCloser), buffered.Reader}, far.(halfCloser))
}

// dial connects to a neighbor's gateway: the target, or the hub that is then
// told the target.
func (s *Server) dial(ctx context.Context, p passage) (net.Conn, error) {
	if !p.hub.IsValid() {
		return s.dialTunnel(ctx, p.to)
	}
	far, err := s.dialTunnel(ctx, p.hub)
	if err != nil {
		return nil, err
	}
	_ = far.SetWriteDeadline(time.Now().Add(preambleTimeout))
	if _, err := far.Write(preamble(p.to)); err != nil {
		far.Close()
		return nil, fmt.Errorf("tell the hub whom the channel is for: %w", err)
	}
	return far, nil
}

// requested parses the target of CONNECT, the channel port at a channel address,
// and the hub's channel address, empty for none.
func requested(target, hub string) (passage, error) {
	to, err := netip.ParseAddrPort(target)
	if err != nil || to.Port() != v1alpha1.ChannelPort {
		return passage{}, fmt.Errorf("CONNECT needs a channel address and port %d, not %.80q", v1alpha1.ChannelPort, target)
	}
	out := passage{to: to.Addr()}
	if hub == "" {
		return out, nil
	}
	if out.hub, err = netip.ParseAddr(hub); err != nil {
		return passage{}, fmt.Errorf("%s must be a channel address, not %.80q", agent.HubHeader, hub)
	}
	return out, nil
}
