package channel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// maxMessage in bytes: a snapshot with every bound reached is below it.
	maxMessage = 4 << 20
	// maxConnsPerPeer: one stream, and one that takes its place. More than a few
	// only a peer that misbehaves has.
	maxConnsPerPeer = 4
	// maxConns in all leaves room for 255 peers and for strangers, who get no
	// further than the TLS handshake and are gone after Timing.Attempt.
	maxConns = 2048
)

func limit(l net.Listener) net.Listener { return netutil.LimitListener(l, maxConns) }

// server is the accepting end.
type server struct {
	channelv1.UnimplementedChannelServer
	manager *Manager
}

func (m *Manager) newServer() *grpc.Server {
	o := m.options
	s := grpc.NewServer(
		grpc.Creds(&countingCredentials{
			TransportCredentials: credentials.NewTLS(identity.PinnedConfig(o.Certificate, m.allowed)),
			manager:              m,
		}),
		grpc.ConnectionTimeout(o.Timing.Attempt),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(2), grpc.MaxHeaderListSize(16<<10),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: o.Timing.Keepalive, Timeout: o.Timing.KeepaliveTimeout, MaxConnectionIdle: 3 * o.Timing.Keepalive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: o.Timing.Keepalive / 2, PermitWithoutStream: true}),
	)
	channelv1.RegisterChannelServer(s, &server{manager: m})
	return s
}

// Exchange serves a peer's stream.
func (s *server) Exchange(stream grpc.BidiStreamingServer[channelv1.Envelope, channelv1.Envelope]) error {
	id, err := streamIdentity(stream.Context())
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	p := s.manager.lookup(id)
	if p == nil {
		return status.Error(codes.PermissionDenied, "this cluster has no ForeignCluster with your identity")
	}
	if err := awaitHello(stream, s.manager.options.Timing.Attempt); err != nil {
		p.failed(explain(err, Route{}))
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	session := newSession(p, stream, false)
	if !p.adopt(session) {
		return status.Error(codes.AlreadyExists, "another stream of this pair of clusters stands")
	}
	log := s.manager.options.Log
	log.Info("peer channel is up", "peer", id, "dialed", false)
	if err = stream.Send(hello()); err != nil {
		session.end(err)
	}
	err = session.run(stream.Context())
	log.Info("peer channel ended", "peer", id, "reason", err)
	return nil
}

// streamIdentity returns the identity that TLS has proved.
func streamIdentity(ctx context.Context) (v1alpha1.Identity, error) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return "", errors.New("the stream has no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", errors.New("the stream is not protected by TLS")
	}
	return identity.PeerIdentity(info.State)
}

// countingCredentials bounds the connections of each identity, so that one peer
// cannot take the places of the others.
type countingCredentials struct {
	credentials.TransportCredentials
	manager *Manager
}

func (c *countingCredentials) Clone() credentials.TransportCredentials {
	return &countingCredentials{TransportCredentials: c.TransportCredentials.Clone(), manager: c.manager}
}

func (c *countingCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	tlsInfo, ok := info.(credentials.TLSInfo)
	if !ok {
		conn.Close()
		return nil, nil, errors.New("no TLS")
	}
	id, err := identity.PeerIdentity(tlsInfo.State)
	if err == nil {
		err = c.manager.admit(id)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return &countedConn{Conn: conn, leave: sync.OnceFunc(func() { c.manager.leave(id) })}, info, nil
}

type countedConn struct {
	net.Conn
	leave func()
}

func (c *countedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

func (m *Manager) admit(id v1alpha1.Identity) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conns[id] >= maxConnsPerPeer {
		return fmt.Errorf("identity %s has %d connections already", id, maxConnsPerPeer)
	}
	m.conns[id]++
	return nil
}

func (m *Manager) leave(id v1alpha1.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conns[id]--; m.conns[id] <= 0 {
		delete(m.conns, id)
	}
}
