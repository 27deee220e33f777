package channel

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Both ends reach each other: one channel comes up, the lower identity's, and
// each end hears all that the other says.
func TestExchange(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.reaches(b)
	b.reaches(a)
	say := Snapshot{
		Record:   a.record(1),
		Networks: []Network{{"pods", v1alpha1.NetworkPod, prefix("10.244.0.0/16")}, {"nodes", v1alpha1.NetworkNode, prefix("100.64.0.0/20")}},
		Offers:   []Offer{{ReceiverGateway: 1, SenderGateway: 2, Network: "pods", CIDR: prefix("10.244.0.0/16"), Wire: prefix("240.1.0.0/16")}},
		MTU:      1440,
	}
	b.knows(a, Snapshot{Networks: []Network{}})
	a.knows(b, say)
	got := b.until(a.id, "b hears all", func(s Status) bool { return s.Said.MTU != 0 })
	require.Equal(t, say, got.Said)
	require.False(t, got.Dialed)
	heard := a.until(b.id, "a is acknowledged", func(s Status) bool { return s.Acknowledged && s.Said.Networks != nil })
	require.True(t, heard.Dialed, "the lower identity dials")
	require.Empty(t, heard.Said.Networks)
	require.Nil(t, heard.Said.Offers, "what was not told is not known")

	say.Offers = []Offer{}
	say.MTU = 0
	a.knows(b, say)
	got = b.until(a.id, "b hears the change", func(s Status) bool { return len(s.Said.Offers) == 0 })
	require.NotNil(t, got.Said.Offers)
	require.EqualValues(t, 1440, got.Said.MTU, "an absent part stands")
}

// Only the higher identity can dial (the lower one is not reachable from
// outside): it waits its turn, then does.
func TestHigherDialsToo(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	b.reaches(a)
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	require.True(t, b.until(a.id, "b is connected", connected).Dialed)
	require.False(t, a.until(b.id, "a is connected", connected).Dialed)
	// The way back opens: the channel that stands is left alone.
	a.reaches(b)
	since := a.Status(b.id).Since
	b.knows(a, Snapshot{MTU: 1400})
	a.until(b.id, "a hears", func(s Status) bool { return s.Said.MTU == 1400 })
	require.Equal(t, since, a.Status(b.id).Since)
}

// One side appears later: the other has been trying all the time.
func TestPeerAppearsLater(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.knows(b, Snapshot{})
	a.until(b.id, "the tunnel is down", func(s Status) bool { return s.Problem == "the tunnel is down" })
	a.reaches(b)
	a.until(b.id, "the peer does not know us", func(s Status) bool { return strings.Contains(s.Problem, "ForeignCluster with our record") })
	began := time.Now()
	b.knows(a, Snapshot{})
	b.until(a.id, "connected", connected)
	require.Less(t, time.Since(began), 5*time.Second)
}

// The controller of one side restarts: the channel comes back, and its
// snapshots, in a later epoch, are taken.
func TestRestart(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.reaches(b)
	for serial := range 5 {
		a.knows(b, Snapshot{MTU: int32(1400 + serial)})
	}
	b.knows(a, Snapshot{})
	b.until(a.id, "b hears", func(s Status) bool { return s.Said.MTU == 1404 })
	a.stop()
	gone := b.until(a.id, "b sees the end", func(s Status) bool { return !s.Connected })
	require.EqualValues(t, 1404, gone.Said.MTU, "what was said stands while the channel is down")
	a2 := newEnd(t, k[0])
	a2.reaches(b)
	a2.knows(b, Snapshot{MTU: 1280})
	b.until(a.id, "b hears the new process", func(s Status) bool { return s.Connected && s.Said.MTU == 1280 })
}

// The clock of a restarted controller went back: the peer answers with what it
// remembers, and the new process continues after it.
func TestClockWentBack(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.epoch = b.epoch - 3600_000
	b.SetPeer(Peer{Identity: a.id})
	b.lookup(a.id).saidEpoch, b.lookup(a.id).saidSerial = b.epoch, 9
	a.reaches(b)
	a.knows(b, Snapshot{MTU: 1400})
	b.until(a.id, "b hears", func(s Status) bool { return s.Said.MTU == 1400 })
	a.until(b.id, "acknowledged", func(s Status) bool { return s.Acknowledged && s.PeerRefused == "" })
}

func TestGoodbye(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.reaches(b)
	b.reaches(a)
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{MTU: 1400})
	a.until(b.id, "connected", connected)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, a.Goodbye(ctx, b.id))
	a.RemovePeer(b.id)
	left := b.until(a.id, "b is told", func(s Status) bool { return s.Left && !s.Connected })
	require.Empty(t, left.Said)
	require.Error(t, a.Goodbye(ctx, b.id))
	// The peering is made anew.
	a.knows(b, Snapshot{})
	require.False(t, b.until(a.id, "connected again", connected).Left)
}

// The peer is dead but nobody has noticed: a goodbye ends with its context.
func TestGoodbyeToADeadPeer(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	valve := newValve(t, b.listener.Addr().String())
	a.routes[b.address()] = valve.Addr()
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	a.until(b.id, "connected", connected)
	valve.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Goodbye(ctx, b.id), context.DeadlineExceeded)
	a.RemovePeer(b.id)
	require.Zero(t, a.Status(b.id))
}

// The link goes silent: the accepting end notices by keepalive, without any
// segment of TCP that says so.
func TestDeadChannelIsNoticed(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	valve := newValve(t, b.listener.Addr().String())
	a.routes[b.address()] = valve.Addr()
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	b.until(a.id, "connected", connected)
	valve.Hold()
	began := time.Now()
	b.until(a.id, "b notices", func(s Status) bool { return !s.Connected })
	require.Less(t, time.Since(began), 15*time.Second)
	a.until(b.id, "a notices", func(s Status) bool { return !s.Connected })
	require.Less(t, time.Since(began), 16*time.Second)
}

// An identity that is no peer does not get past the TLS handshake.
func TestStrangerIsRefused(t *testing.T) {
	k := keys(t, 3)
	a, b, stranger := newEnd(t, k[0]), newEnd(t, k[1]), newEnd(t, k[2])
	a.knows(b, Snapshot{})
	_, err := openStream(t, stranger, a)
	require.Equal(t, codes.Unavailable, status.Code(err), "no stream, and so no answer of the service: %v", err)
	require.Zero(t, a.Status(stranger.id))
	// Nor does a man in the middle: b pins a's identity and meets the stranger.
	b.routes[a.address()] = stranger.listener.Addr().String()
	stranger.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	b.until(a.id, "refused", func(s Status) bool { return s.Problem != "" && !s.Connected })
	require.Contains(t, b.Status(a.id).Problem, string(stranger.id))
}

// adopt comes to the same answer at both ends, whatever the order.
func TestTwoStreams(t *testing.T) {
	k := keys(t, 2)
	lower, higher := newEnd(t, k[0]), newEnd(t, k[1])
	lower.SetPeer(Peer{Identity: higher.id})
	higher.SetPeer(Peer{Identity: lower.id})
	for _, test := range []struct {
		at                    *end
		other                 v1alpha1.Identity
		firstDialed, thenDial bool
		takes                 bool
	}{
		{lower, higher.id, true, false, false},
		{lower, higher.id, false, true, true},
		{higher, lower.id, true, false, true},
		{higher, lower.id, false, true, false},
		{lower, higher.id, true, true, true},
		{higher, lower.id, false, false, true},
	} {
		p := test.at.lookup(test.other)
		p.mu.Lock()
		p.current = nil
		p.mu.Unlock()
		first, second := newSession(p, nil, test.firstDialed), newSession(p, nil, test.thenDial)
		require.True(t, p.adopt(first))
		require.Equal(t, test.takes, p.adopt(second), "%+v", test)
		select {
		case <-first.done:
			require.True(t, test.takes)
		default:
			require.False(t, test.takes)
		}
	}
}

func TestRunEndsWhenTheListenerFails(t *testing.T) {
	k := keys(t, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	m := New(Options{Self: idOf(k[0]), Timing: quick, Now: time.Now, Changed: func(v1alpha1.Identity) {}})
	require.Error(t, m.Run(t.Context(), listener))
}
