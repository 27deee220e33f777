// Package agenttest plays an agent towards the controller, for tests: its API
// over real TLS, without a tunnel behind it.
package agenttest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Agent answers one cluster's controller.
type Agent struct {
	Address     netip.AddrPort
	Certificate string

	server *httptest.Server

	mu           sync.Mutex
	owner        v1alpha1.Identity
	routes       map[string]string
	measurements agent.Measurements
}

// New starts an agent on a loopback port.
func New() (*Agent, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate, err := identity.Certificate(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(certificate.Certificate[0])
	a := &Agent{Certificate: hex.EncodeToString(sum[:]), routes: map[string]string{}}
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	a.server.TLS = identity.PinnedConfig(certificate, a.allowed)
	a.server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // CONNECT needs HTTP/1.1
	a.server.StartTLS()
	a.Address, err = netip.ParseAddrPort(a.server.Listener.Addr().String())
	return a, err
}

// Close ends the agent and every connection through it.
func (a *Agent) Close() {
	a.server.CloseClientConnections()
	a.server.Close()
}

// SetOwner says whose controller may ask.
func (a *Agent) SetOwner(id v1alpha1.Identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owner = id
}

// SetRoute says where a channel address (with port) leads; "" is a dead tunnel.
// A way through a hub has the hub's channel address behind a space.
func (a *Agent) SetRoute(authority, to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.routes[authority] = to
}

// SetMeasurements says what the probes see.
func (a *Agent) SetMeasurements(m agent.Measurements) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.measurements = m
}

func (a *Agent) allowed(id v1alpha1.Identity) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != a.owner {
		return errors.New("only the controller of this cluster may use an agent's API")
	}
	return nil
}

func (a *Agent) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		a.connect(w, r)
		return
	}
	if r.URL.Path != agent.MeasurementsPath {
		http.NotFound(w, r)
		return
	}
	a.mu.Lock()
	m := a.measurements
	a.mu.Unlock()
	_ = json.NewEncoder(w).Encode(m)
}

func (a *Agent) connect(w http.ResponseWriter, r *http.Request) {
	authority := strings.TrimSpace(r.Host + " " + r.Header.Get(agent.HubHeader))
	a.mu.Lock()
	to := a.routes[authority]
	a.mu.Unlock()
	if to == "" {
		http.Error(w, "no neighbor has this channel address", http.StatusForbidden)
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		far.Close()
		return
	}
	_, _ = near.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
	go splice(far, near)
	splice(near, far)
}

func splice(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}
