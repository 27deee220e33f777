package agentapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	maxAPIConnections = totalLimit + 64 // channels, and the controller's questions
	headerTimeout     = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	writeTimeout      = 10 * time.Second
	dialTimeout       = 5 * time.Second
)

// serveAPI serves HTTPS on the listener until it closes.
func (s *Server) serveAPI(ctx context.Context, listener net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agent.MeasurementsPath, s.measurements)
	server := &http.Server{
		Handler:           s.authenticated(mux),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    16 << 10,
		// CONNECT takes the connection over, which HTTP/2 does not have.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
		ConnState:    authenticatedState,
		BaseContext:  func(net.Listener) context.Context { return ctx },
	}
	defer server.Close()
	limited := &limitedListener{Listener: listener, slots: make(chan struct{}, maxAPIConnections)}
	err := server.Serve(tls.NewListener(limited, identity.PinnedConfig(s.certificate, s.allowed)))
	if !errors.Is(err, net.ErrClosed) && ctx.Err() == nil {
		s.options.Log.Warn("agent API stopped", "error", err)
	}
}

// authenticated repeats the check of the handshake for each request, since the
// state may have changed since.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := identity.PeerIdentity(*r.TLS)
		if err == nil {
			err = s.allowed(id)
		}
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusForbidden)
		case r.Method == http.MethodConnect:
			s.connect(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *Server) measurements(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(s.options.Measurements())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// connect opens a channel to a neighbor's gateway for the controller.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	target, err := s.dialable(r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	end, err := s.splices.enter(target.Addr())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer end.leave()
	state, _ := s.current()
	dialer := net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: keepAlive,
		LocalAddr:       net.TCPAddrFromAddrPort(netip.AddrPortFrom(state.ChannelAddress, 0)),
	}
	far, err := dialer.DialContext(r.Context(), "tcp", target.String())
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

// dialable parses the target of CONNECT: the channel port at the channel
// address of a gateway that a Neighbor names, and nothing else.
func (s *Server) dialable(host string) (netip.AddrPort, error) {
	target, err := netip.ParseAddrPort(host)
	if err != nil {
		return target, fmt.Errorf("CONNECT needs a channel address and port, not %.80q", host)
	}
	state, _ := s.current()
	if !state.ChannelAddress.IsValid() {
		return target, errors.New("this node is no gateway: ask a gateway's agent")
	}
	if target.Port() != v1alpha1.ChannelPort || !slices.Contains(state.Peers, target.Addr()) {
		return target, fmt.Errorf("%s is not the channel of a known neighbor", target)
	}
	return target, nil
}
