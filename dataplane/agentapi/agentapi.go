// Package agentapi is the agent's HTTPS API and its part in the peer channel:
// it serves measurements to the controller of its own cluster, and splices the
// channel's bytes between the tunnel and that controller, or, as a hub, between
// two neighbors that have transit. It reads none of them but a preamble to a hub:
// the channel's own TLS runs through.
package agentapi

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Options of a Server.
type Options struct {
	Log *slog.Logger
	// StateDir holds the key of the TLS certificate across restarts.
	StateDir string
	// Measurements to serve; called once a request, must be safe for
	// concurrent use.
	Measurements func() agent.Measurements
}

// State is what the cluster's objects say to the server. The zero State serves
// nobody and listens nowhere.
type State struct {
	// Identity of the own cluster: only who proves to hold its key may use the
	// API.
	Identity v1alpha1.Identity
	// Listen is where the API listens: the node's underlay address and the
	// agents' port.
	Listen netip.AddrPort
	// ChannelAddress of this gateway; invalid on plain nodes.
	ChannelAddress netip.Addr
	// Peers are the channel addresses of the neighbors' gateways: who may be
	// dialed, and who is accepted.
	Peers []netip.Addr
	// ChannelEndpoint (address:port) is where the leading controller accepts
	// channels; empty if there is none.
	ChannelEndpoint string
	// Transit between neighbors, whose channels are then spliced to each other.
	Transit Transit
}

// channelListen is where neighbors' channels come in.
func (s State) channelListen() netip.AddrPort {
	if !s.ChannelAddress.IsValid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(s.ChannelAddress, v1alpha1.ChannelPort)
}

// Server is the agent's API. Its methods are safe for concurrent use.
type Server struct {
	options     Options
	certificate tls.Certificate
	splices     splices
	// patience with a channel that has not said yet what it wants.
	patience time.Duration

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed when the state changes
}

// New loads the server's key from the state folder, or makes it.
func New(options Options) (*Server, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	key, err := loadKey(options.StateDir)
	if err != nil {
		return nil, err
	}
	certificate, err := identity.Certificate(key)
	if err != nil {
		return nil, err
	}
	return &Server{options: options, certificate: certificate, patience: preambleTimeout, changed: make(chan struct{})}, nil
}

// CertificateSHA256 returns the SHA-256 of the server's certificate (DER) in
// lower-case hexadecimal, as FabricNode.status.agentCertificate publishes it.
func (s *Server) CertificateSHA256() string {
	sum := sha256.Sum256(s.certificate.Certificate[0])
	return hex.EncodeToString(sum[:])
}

// SetState takes effect at once: listeners appear, move and go with it, and so
// do connections that it no longer allows.
func (s *Server) SetState(state State) {
	state.Peers = slices.Clone(state.Peers)
	s.mu.Lock()
	same := reflect.DeepEqual(s.state, state)
	if !same {
		s.state = state
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
	if !same {
		s.splices.keep(func(p passage) bool { return state.permits(p) == nil })
	}
}

// current state, and a channel that closes when it is no longer current.
func (s *Server) current() (State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// Run serves until the context ends. It is called once.
func (s *Server) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { s.listen(ctx, "agent API", func(st State) netip.AddrPort { return st.Listen }, s.serveAPI) })
	group.Go(func() { s.listen(ctx, "peer channel", State.channelListen, s.serveChannel) })
	<-ctx.Done()
	s.splices.keep(func(passage) bool { return false })
	group.Wait()
	return nil
}

// allowed says whether an identity may use the API now.
func (s *Server) allowed(id v1alpha1.Identity) error {
	state, _ := s.current()
	if state.Identity == "" || id != state.Identity {
		return errors.New("only the controller of this cluster may use an agent's API")
	}
	return nil
}
