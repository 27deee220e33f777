package agentapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
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
