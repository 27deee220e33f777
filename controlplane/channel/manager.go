package channel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Route is a way to a gateway of a peer: its channel address, and the channel
// address of the gateway of a hub that splices to it, invalid if none is needed.
type Route struct {
	Target netip.Addr
	Hub    netip.Addr
}

// Dialer opens a byte stream to a peer's channel address through one of our
// gateways. Attempts count from 0, so that they can take turns.
type Dialer interface {
	Dial(ctx context.Context, route Route, attempt int) (net.Conn, error)
}

// Timing of the channel.
type Timing struct {
	// HigherWaits is how long the greater identity leaves dialing to the lower.
	HigherWaits time.Duration
	// Attempt bounds the dialing of an attempt, and its greeting. Where there is a
	// way through a hub as well, it bounds both together on the direct one.
	Attempt time.Duration
	// BackoffMin and BackoffMax bound the pause between two attempts.
	BackoffMin, BackoffMax time.Duration
	// Keepalive and KeepaliveTimeout: a dead channel is noticed within their sum.
	// gRPC takes at least 10 s for the former.
	Keepalive, KeepaliveTimeout time.Duration
}

// DefaultTiming is what the controller uses.
var DefaultTiming = Timing{
	HigherWaits:      5 * time.Second,
	Attempt:          5 * time.Second,
	BackoffMin:       500 * time.Millisecond,
	BackoffMax:       4 * time.Second,
	Keepalive:        10 * time.Second,
	KeepaliveTimeout: 4 * time.Second,
}

// Options of New.
type Options struct {
	Self        v1alpha1.Identity
	Certificate tls.Certificate
	Dialer      Dialer
	// Changed is called, without any lock held, when a peer's Status changed. It
	// must not block.
	Changed func(v1alpha1.Identity)
	// ServicesChanged is called likewise when something of a peer's services did. It
	// may be nil.
	ServicesChanged func(v1alpha1.Identity, ServiceEvent)

	Log    *slog.Logger
	Timing Timing
	Now    func() time.Time
}

// Peer is what the manager must know of a neighbor.
type Peer struct {
	Identity v1alpha1.Identity
	// Name is local, for logs.
	Name string
	// Routes to the peer's gateways. The direct ones are tried first.
	Routes []Route
	// Say is our side: sent when it changes.
	Say Snapshot
}

// Status is what the manager knows of a peer.
type Status struct {
	// Connected since Since; Dialed says that this end dialed, and over which
	// Route.
	Connected bool
	Since     time.Time
	Dialed    bool
	Route     Route
	// Problem is why the last attempt failed, empty while connected.
	Problem string
	// Left: the peer said goodbye and has not come back.
	Left bool
	// Said is what the peer said; its parts are nil until it did.
	Said Snapshot
	// Refused is why the peer's last snapshot was refused, PeerRefused why the
	// peer refused ours.
	Refused     string
	PeerRefused string
	// LeftOut is what was left out of the peer's last snapshot and why, empty if
	// nothing was: items that concern third clusters. The rest was taken.
	LeftOut string
	// Acknowledged: the peer has taken all that we say now.
	Acknowledged bool
}

// Manager holds the channels to all peers.
type Manager struct {
	options Options
	epoch   uint64
	cancel  context.CancelFunc
	ctx     context.Context

	mu    sync.Mutex
	peers map[v1alpha1.Identity]*peer
	// outboxes are what is told of services, by who is told.
	outboxes map[v1alpha1.Identity]*outbox

	conns map[v1alpha1.Identity]int
	tasks sync.WaitGroup
}

// New returns a manager without peers. Snapshots of this process order after
// those of an earlier one because their epoch is its time of birth.
func New(o Options) *Manager {
	ctx, cancel := context.WithCancel(context.Background())
	return &Manager{
		options: o, epoch: uint64(o.Now().UnixMilli()), ctx: ctx, cancel: cancel,
		peers: map[v1alpha1.Identity]*peer{}, conns: map[v1alpha1.Identity]int{}, outboxes: map[v1alpha1.Identity]*outbox{},
	}
}

// Run serves the channels that come in on the listener until ctx ends, then
// ends all of them. What peers were told stands: no goodbye is said.
func (m *Manager) Run(ctx context.Context, listener net.Listener) error {
	server := m.newServer()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(limit(listener)) }()
	defer func() {
		m.mu.Lock()
		m.cancel() // no peer is added after this
		m.mu.Unlock()
		server.Stop()
		m.tasks.Wait()
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serve peer channels on %s: %w", listener.Addr(), err)
	}
}

// SetPeer makes the manager know a peer, and dial it, or changes what it knows.
func (m *Manager) SetPeer(p Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.peers[p.Identity]; ok {
		known.set(p)
		return
	}
	if m.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(m.ctx)
	created := newPeer(m, p, cancel)
	m.peers[p.Identity] = created
	m.tasks.Go(func() { created.dialLoop(ctx) })
}

// RemovePeer forgets a peer and ends its channel at once.
func (m *Manager) RemovePeer(id v1alpha1.Identity) {
	m.mu.Lock()
	p := m.peers[id]
	delete(m.peers, id)
	m.mu.Unlock()
	if p != nil {
		p.cancel()
		p.end(errors.New("the peering ended"))
	}
}

// Goodbye tells the peer that the peering ends and waits for its answer, as
// long as ctx and the channel last.
func (m *Manager) Goodbye(ctx context.Context, id v1alpha1.Identity) error {
	p := m.lookup(id)
	if p == nil {
		return errors.New("the peer is not known")
	}
	return p.goodbye(ctx)
}

// Status of a peer; the zero Status for an unknown one.
func (m *Manager) Status(id v1alpha1.Identity) Status {
	p := m.lookup(id)
	if p == nil {
		return Status{}
	}
	return p.status()
}

// MarkLeft restores, after a restart, that the peer had said goodbye.
func (m *Manager) MarkLeft(id v1alpha1.Identity) {
	if p := m.lookup(id); p != nil {
		p.markLeft()
	}
}

func (m *Manager) lookup(id v1alpha1.Identity) *peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peers[id]
}

// allowed is the pin: only identities of peers get past the TLS handshake.
func (m *Manager) allowed(id v1alpha1.Identity) error {
	if m.lookup(id) == nil {
		return fmt.Errorf("identity %s is no peer of this cluster", id)
	}
	return nil
}
