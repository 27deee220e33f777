package channel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const patience = 60 * time.Second

// quick is the real timing with short pauses. gRPC clients take no keepalive
// below 10 s.
var quick = Timing{
	HigherWaits: 200 * time.Millisecond, Attempt: 2 * time.Second,
	BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
	Keepalive: time.Second, KeepaliveTimeout: time.Second,
}

// end is one cluster's channel manager on a loopback port, which takes the
// place of the tunnel and the agents on both sides of it.
type end struct {
	*Manager
	t        *testing.T
	key      ed25519.PrivateKey
	id       v1alpha1.Identity
	listener net.Listener
	cancel   context.CancelFunc
	stopped  chan struct{}

	mu sync.Mutex
	// routes to other ends; none: the tunnel is down. Those in hubs are through a
	// hub. A dial to "" lasts until its context ends, as packets do that nobody
	// answers.
	routes map[netip.Addr]string
	hubs   map[netip.Addr]string
	// silent is how long such dials were allowed to last.
	silent  []time.Duration
	changes chan struct{}
}

// keys returns keys in the order of their identities.
func keys(t *testing.T, n byte) []ed25519.PrivateKey {
	t.Helper()
	var out []ed25519.PrivateKey
	for seed := byte(1); seed <= n; seed++ {
		out = append(out, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	}
	for i := range out {
		for j := range i {
			if idOf(out[i]) < idOf(out[j]) {
				out[i], out[j] = out[j], out[i]
			}
		}
	}
	return out
}

func idOf(key ed25519.PrivateKey) v1alpha1.Identity {
	return identity.Fingerprint(key.Public().(ed25519.PublicKey))
}

func newEnd(t *testing.T, key ed25519.PrivateKey) *end {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return startEnd(t, key, listener)
}

func startEnd(t *testing.T, key ed25519.PrivateKey, listener net.Listener) *end {
	t.Helper()
	certificate, err := identity.Certificate(key)
	require.NoError(t, err)
	e := &end{
		t: t, key: key, id: idOf(key), listener: listener, stopped: make(chan struct{}),
		routes: map[netip.Addr]string{}, hubs: map[netip.Addr]string{}, changes: make(chan struct{}, 1),
	}
	e.Manager = New(Options{
		Self: e.id, Certificate: certificate, Dialer: e, Timing: quick, Now: time.Now,
		Log:     slog.New(slog.DiscardHandler),
		Changed: func(v1alpha1.Identity) { signal(e.changes) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	go func() {
		defer close(e.stopped)
		_ = e.Run(ctx, listener)
	}()
	t.Cleanup(e.stop)
	return e
}

func (e *end) stop() {
	e.cancel()
	<-e.stopped
}

// Dial implements Dialer.
func (e *end) Dial(ctx context.Context, route Route, _ int) (net.Conn, error) {
	e.mu.Lock()
	address, ok := e.routes[route.Target]
	if route.Hub.IsValid() {
		address, ok = e.hubs[route.Target]
	}
	if deadline, bounded := ctx.Deadline(); ok && bounded && address == "" {
		e.silent = append(e.silent, time.Until(deadline))
	}
	e.mu.Unlock()
	switch {
	case !ok:
		return nil, errors.New("the tunnel is down")
	case address == "":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

func (e *end) address() netip.Addr { return identity.ChannelAddress(e.id, 1) }

// reaches opens the way from e to other.
func (e *end) reaches(other *end) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes[other.address()] = other.listener.Addr().String()
}

// knows makes other a peer of e.
func (e *end) knows(other *end, say Snapshot) {
	e.SetPeer(Peer{Identity: other.id, Name: "peer", Routes: []Route{{Target: other.address()}}, Say: say})
}

// until waits for a status of a peer.
func (e *end) until(id v1alpha1.Identity, what string, ok func(Status) bool) Status {
	e.t.Helper()
	deadline := time.After(patience)
	for {
		if s := e.Status(id); ok(s) {
			return s
		}
		select {
		case <-e.changes:
		case <-time.After(50 * time.Millisecond): // Acknowledged and the like of a removed peer raise no change
		case <-deadline:
			require.FailNow(e.t, "never: "+what, "status %+v", e.Status(id))
		}
	}
}

func connected(s Status) bool { return s.Connected }

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// record of a cluster with one gateway.
func (e *end) record(serial uint64) string {
	e.t.Helper()
	r := identity.Record{ClusterID: "x", Epoch: 1, Serial: serial, Gateways: []identity.Gateway{{
		ID: 1, Lanes: []identity.Lane{{Port: 51847, Key: bytes.Repeat([]byte{7}, 32)}},
	}}}
	token, err := r.Sign(e.key)
	require.NoError(e.t, err)
	return token
}

func (e *end) clientTLS(server v1alpha1.Identity) *tls.Config {
	certificate, err := identity.Certificate(e.key)
	require.NoError(e.t, err)
	return identity.PinnedConfig(certificate, func(id v1alpha1.Identity) error {
		if id != server {
			return errors.New("another server")
		}
		return nil
	})
}
