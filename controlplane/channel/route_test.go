package channel

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var hub = netip.MustParseAddr("fd79::c")

// knowsBoth makes other a peer of e with a direct route and one through a hub.
func (e *end) knowsBoth(other *end, say Snapshot) {
	e.SetPeer(Peer{Identity: other.id, Routes: []Route{{Target: other.address(), Hub: hub}, {Target: other.address()}}, Say: say})
}

func (e *end) set(routes map[netip.Addr]string, to *end, address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	routes[to.address()] = address
}

// Both ways work: the direct one is used, whatever the order they are listed in.
func TestDirectRouteComesFirst(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.reaches(b)
	a.set(a.hubs, b, b.listener.Addr().String())
	b.knows(a, Snapshot{})
	a.knowsBoth(b, Snapshot{})
	require.Equal(t, Route{Target: b.address()}, a.until(b.id, "connected", connected).Route)
	require.Zero(t, b.until(a.id, "connected", connected).Route, "the end that did not dial knows no route")
}

// The direct link is silent: the hub is tried before a whole attempt's time is
// over.
func TestSilentDirectRouteDoesNotDelayTheHub(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.set(a.routes, b, "")
	a.set(a.hubs, b, b.listener.Addr().String())
	b.knows(a, Snapshot{})
	a.knowsBoth(b, Snapshot{})
	require.Equal(t, hub, a.until(b.id, "connected", connected).Route.Hub)
	require.Len(t, a.silent, 1)
	require.LessOrEqual(t, a.silent[0], quick.Attempt/2)
}

// Without a way through a hub, the direct one has all the time of an attempt.
func TestSilentDirectRouteAlone(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.set(a.routes, b, "")
	a.knows(b, Snapshot{})
	a.until(b.id, "it failed", func(s Status) bool { return s.Problem != "" })
	a.stop()
	require.Greater(t, a.silent[0], quick.Attempt/2)
}

// The direct link takes the connection and then says nothing: the same within an
// attempt's time.
func TestMuteDirectRouteDoesNotDelayTheHub(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	mute := newValve(t, b.listener.Addr().String())
	mute.Hold()
	a.set(a.routes, b, mute.Addr())
	a.set(a.hubs, b, b.listener.Addr().String())
	b.knows(a, Snapshot{})
	began := time.Now()
	a.knowsBoth(b, Snapshot{})
	require.Equal(t, hub, a.until(b.id, "connected", connected).Route.Hub)
	require.Less(t, time.Since(began), 2*quick.Attempt)
}

// The direct link dies under a session: the next one is through the hub, and
// stands when the direct link is back.
func TestHubTakesOver(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.reaches(b)
	a.set(a.hubs, b, b.listener.Addr().String())
	b.knows(a, Snapshot{})
	a.knowsBoth(b, Snapshot{})
	require.False(t, a.until(b.id, "connected", connected).Route.Hub.IsValid())
	a.set(a.routes, b, "")
	began := time.Now()
	a.lookup(b.id).end(fmt.Errorf("keepalive was not answered"))
	since := a.until(b.id, "connected through the hub", func(s Status) bool { return s.Connected && s.Route.Hub == hub }).Since
	require.Less(t, time.Since(began), 2*quick.Attempt)
	a.reaches(b)
	a.knowsBoth(b, Snapshot{MTU: 1400})
	b.until(a.id, "b hears", func(s Status) bool { return s.Said.MTU == 1400 })
	require.Equal(t, since, a.Status(b.id).Since)
}

// Neither way works: the condition says why of both.
func TestBothRoutesFail(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.set(a.routes, b, "")
	a.knowsBoth(b, Snapshot{})
	s := a.until(b.id, "it failed", func(s Status) bool { return s.Problem != "" })
	require.Equal(t, "directly: "+context.DeadlineExceeded.Error()+"; through a hub: the tunnel is down", s.Problem)
	a.set(a.hubs, b, b.listener.Addr().String())
	s = a.until(b.id, "b does not know a", func(s Status) bool { return len(s.Problem) > 120 })
	require.Contains(t, s.Problem, "does the hub forward between the two clusters")
}

// A cluster known only through a hub has a channel too, whichever end dials.
func TestOnlyThroughAHub(t *testing.T) {
	k := keys(t, 2)
	for name, order := range map[string][2]int{"the lower dials": {0, 1}, "the higher dials": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			a, b := newEnd(t, k[order[0]]), newEnd(t, k[order[1]])
			a.set(a.hubs, b, b.listener.Addr().String())
			a.SetPeer(Peer{Identity: b.id, Routes: []Route{{Target: b.address(), Hub: hub}}})
			b.SetPeer(Peer{Identity: a.id})
			require.Equal(t, hub, a.until(b.id, "connected", connected).Route.Hub)
		})
	}
}

// Their gateways take turns first, then ours.
func TestTurns(t *testing.T) {
	routes := []Route{{Target: netip.MustParseAddr("fd79::1")}, {Target: netip.MustParseAddr("fd79::2")}}
	for round, want := range []attempt{{routes[0], 0}, {routes[1], 0}, {routes[0], 1}, {routes[1], 1}} {
		require.Equal(t, want, turn(routes, round))
	}
}
