package dns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weft-fabric/weft/dns/resolver"
)

const (
	httpTimeout = 5 * time.Second
	// askLimit bounds one report, below the time that weftctl waits.
	askLimit = 8 * time.Second
)

// health answers the kubelet's probes and weftctl.
type health struct {
	ready      func() bool
	resolvConf string
	// asking lets one report be made at a time, so that nobody makes this pod send
	// many questions.
	asking sync.Mutex
}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.ready() {
			http.Error(w, "the zone is not known yet, or the process stops", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET "+resolver.Path, h.clusterDNS)
	return mux
}

func (h *health) clusterDNS(w http.ResponseWriter, request *http.Request) {
	if !h.asking.TryLock() {
		http.Error(w, "another request is being answered; try again", http.StatusTooManyRequests)
		return
	}
	defer h.asking.Unlock()
	servers, err := resolver.Servers(h.resolvConf)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ctx, cancel := context.WithTimeout(request.Context(), askLimit)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	// An error means that the client has gone.
	_ = json.NewEncoder(w).Encode(resolver.Ask(ctx, servers))
}

func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}

// serveHTTP until ctx ends. The address "0" serves nothing.
func serveHTTP(ctx context.Context, what, address string, handler http.Handler) error {
	if address == "0" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", what, err)
	}
	server := &http.Server{
		Handler: handler, ReadTimeout: httpTimeout, WriteTimeout: askLimit + httpTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 14,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", what, err)
	}
	return nil
}
