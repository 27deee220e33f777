package apply

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/weft-fabric/weft/dataplane/plan"
)

func prefixes(list ...string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, s := range list {
		parsed = append(parsed, netip.MustParsePrefix(s))
	}
	return parsed
}

func TestPeerChanges(t *testing.T) {
	one, two, three := wgtypes.Key{1}, wgtypes.Key{2}, wgtypes.Key{3}
	keepalive := 25 * time.Second
	none := time.Duration(0)
	have := []wgtypes.Peer{
		{PublicKey: one, AllowedIPs: toIPNets(prefixes("240.1.0.0/16", "240.2.0.0/16")), Endpoint: &net.UDPAddr{}},
		{PublicKey: two, PersistentKeepaliveInterval: keepalive, AllowedIPs: toIPNets(prefixes("240.3.0.0/16"))},
	}
	want := []plan.Peer{
		{PublicKey: one, AllowedIPs: prefixes("240.1.0.0/16", "240.4.0.0/16")},
		{PublicKey: two, Keepalive: keepalive, AllowedIPs: prefixes("240.3.0.0/16")},
		{PublicKey: three, AllowedIPs: prefixes("240.2.0.0/16")},
	}
	require.Equal(t, []wgtypes.PeerConfig{
		{PublicKey: one, UpdateOnly: true, AllowedIPs: toIPNets(prefixes("240.4.0.0/16"))},
		{PublicKey: three, PersistentKeepaliveInterval: &none, AllowedIPs: toIPNets(prefixes("240.2.0.0/16"))},
	}, peerChanges(want, have), "nothing is replaced or taken away")

	standIn := wgtypes.Key{9}
	require.Equal(t, []wgtypes.PeerConfig{
		{PublicKey: two, Remove: true},
		{PublicKey: standIn, AllowedIPs: toIPNets(prefixes("240.1.0.0/16"))},
		{PublicKey: standIn, Remove: true},
	}, peerRemovals([]plan.Peer{{PublicKey: one, AllowedIPs: prefixes("240.2.0.0/16")}}, have, standIn))
	require.Empty(t, peerRemovals([]plan.Peer{
		{PublicKey: one, AllowedIPs: prefixes("240.1.0.0/16", "240.2.0.0/16")}, {PublicKey: two, AllowedIPs: prefixes("240.3.0.0/16")},
	}, have, standIn))
}

// A peer with two configured endpoints: the first is tried, then the second; the
// one that works is left alone, also when the peer roams; when it falls silent,
// the search begins again. A restarted agent begins where the peer was heard.
func TestEndpoints(t *testing.T) {
	path := t.TempDir() + "/endpoints.json"
	book := newEndpointBook(path)
	resolver := newResolver(t.Context())
	defer resolver.close()
	peer := plan.Peer{PublicKey: wgtypes.Key{1}, Endpoints: []string{"192.0.2.1:1", "192.0.2.2:2"}}
	now := time.Unix(1_000_000, 0)
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	state := func(endpoint string, handshake time.Time) wgtypes.Peer {
		return wgtypes.Peer{PublicKey: peer.PublicKey, Endpoint: net.UDPAddrFromAddrPort(at(endpoint)), LastHandshakeTime: handshake}
	}
	next := func(current wgtypes.Peer) netip.AddrPort {
		endpoint, err := book.next("weft0", peer, current, resolver, now)
		require.NoError(t, err)
		return endpoint
	}

	first, err := book.first("weft0", peer, resolver, now)
	require.NoError(t, err)
	require.Equal(t, at("192.0.2.1:1"), first)
	now = now.Add(5 * time.Second)
	require.False(t, next(state("192.0.2.1:1", time.Time{})).IsValid(), "it has its time")
	now = now.Add(patience)
	require.Equal(t, at("192.0.2.2:2"), next(state("192.0.2.1:1", time.Time{})))
	now = now.Add(patience + time.Second)
	require.Equal(t, at("192.0.2.1:1"), next(state("192.0.2.2:2", time.Time{})), "round and round")

	roamed := state("198.51.100.7:777", now)
	require.True(t, book.remember("weft0", []wgtypes.Peer{roamed}, now))
	require.False(t, book.remember("weft0", []wgtypes.Peer{roamed}, now))
	require.NoError(t, book.save())
	for range 17 {
		now = now.Add(10 * time.Second)
		require.False(t, next(roamed).IsValid(), "what works is never overwritten")
	}

	now = now.Add(silence)
	require.False(t, next(roamed).IsValid())
	now = now.Add(patience)
	require.False(t, next(roamed).IsValid(), "the first candidate is where it was heard, which is in use")
	now = now.Add(patience)
	require.Equal(t, at("192.0.2.1:1"), next(roamed))

	restarted := newEndpointBook(path)
	first, err = restarted.first("weft0", peer, resolver, now)
	require.NoError(t, err)
	require.Equal(t, at("198.51.100.7:777"), first)
	require.True(t, restarted.keepOnly(nil), "a removed peer is forgotten")
	require.Empty(t, restarted.heard)
}

// A peer that we yield to is left to dial us, but not for long, and not if it
// was heard of before.
func TestYields(t *testing.T) {
	book := newEndpointBook(t.TempDir() + "/endpoints.json")
	resolver := newResolver(t.Context())
	defer resolver.close()
	peer := plan.Peer{PublicKey: wgtypes.Key{1}, Endpoints: []string{"192.0.2.1:1"}, Yields: true}
	configured := netip.MustParseAddrPort("192.0.2.1:1")
	unheard := wgtypes.Peer{PublicKey: peer.PublicKey}
	now := time.Unix(1_000_000, 0)
	first := func(b *endpointBook) netip.AddrPort {
		endpoint, err := b.first("weft0", peer, resolver, now)
		require.NoError(t, err)
		return endpoint
	}
	require.False(t, first(book).IsValid())
	now = now.Add(yieldFor - time.Millisecond)
	require.False(t, first(book).IsValid(), "another Apply does not begin its time anew")
	endpoint, err := book.next("weft0", peer, unheard, resolver, now)
	require.NoError(t, err)
	require.False(t, endpoint.IsValid())
	now = now.Add(time.Millisecond)
	endpoint, err = book.next("weft0", peer, unheard, resolver, now)
	require.NoError(t, err)
	require.Equal(t, configured, endpoint, "it has not dialed")

	again := newEndpointBook(t.TempDir() + "/endpoints.json")
	again.remember("weft0", []wgtypes.Peer{{PublicKey: peer.PublicKey, Endpoint: net.UDPAddrFromAddrPort(configured), LastHandshakeTime: now}}, now)
	require.Equal(t, configured, first(again))
}

// Two ends that lost their WireGuard at once both dial where they last heard the
// other. The one that yields makes room for one retry of the other, again and
// again, and comes back to every endpoint that it knows.
func TestYieldsInTurns(t *testing.T) {
	const retry = 5334 * time.Millisecond // REKEY_TIMEOUT and its jitter
	resolver := newResolver(t.Context())
	defer resolver.close()
	peer := plan.Peer{PublicKey: wgtypes.Key{1}, Endpoints: []string{"192.0.2.1:1", "192.0.2.2:2"}, Yields: true}
	now := time.Unix(1_000_000, 0)
	book := newEndpointBook(t.TempDir() + "/endpoints.json")
	state := wgtypes.Peer{PublicKey: peer.PublicKey, Endpoint: net.UDPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1")), LastHandshakeTime: now}
	book.remember("weft0", []wgtypes.Peer{state}, now)
	endpoint, err := book.first("weft0", peer, resolver, now)
	require.NoError(t, err)
	state = wgtypes.Peer{PublicKey: peer.PublicKey, Endpoint: net.UDPAddrFromAddrPort(endpoint)}

	type turn struct {
		endpoint string
		held     time.Duration
	}
	turns, since := []turn{}, now
	for range 30 {
		now = now.Add(2 * time.Second)
		endpoint, err := book.next("weft0", peer, state, resolver, now)
		require.NoError(t, err)
		if !endpoint.IsValid() {
			continue
		}
		turns = append(turns, turn{state.Endpoint.String(), now.Sub(since)})
		state.Endpoint, since = net.UDPAddrFromAddrPort(endpoint), now
	}
	require.Equal(t, []string{"192.0.2.1:1", "127.0.0.1:9", "192.0.2.2:2", "127.0.0.1:9", "192.0.2.1:1"},
		[]string{turns[0].endpoint, turns[1].endpoint, turns[2].endpoint, turns[3].endpoint, turns[4].endpoint})
	require.Less(t, turns[0].held, retry, "what was dialed at once makes room before both dial again")
	for _, turn := range turns[1:] {
		require.Greater(t, turn.held, retry)
		require.Less(t, turn.held, patience)
	}

	state.Endpoint, state.LastHandshakeTime = net.UDPAddrFromAddrPort(netip.MustParseAddrPort("198.51.100.7:7")), now
	for range 80 {
		now = now.Add(2 * time.Second)
		endpoint, err := book.next("weft0", peer, state, resolver, now)
		require.NoError(t, err)
		require.False(t, endpoint.IsValid(), "what works is never overwritten")
	}
}

// A new peer that was left to dial us is made anew when it is dialed, whole, as
// only then WireGuard dials at once; any other keeps what it has.
func TestRedirection(t *testing.T) {
	peer := plan.Peer{PublicKey: wgtypes.Key{1}, Keepalive: 25 * time.Second, AllowedIPs: []netip.Prefix{netip.MustParsePrefix("240.0.0.0/16")}}
	to := netip.MustParseAddrPort("192.0.2.1:1")
	changes := redirection(peer, wgtypes.Peer{PublicKey: peer.PublicKey}, to)
	require.Len(t, changes, 2)
	require.True(t, changes[0].Remove)
	require.Equal(t, to.String(), changes[1].Endpoint.String())
	require.False(t, changes[1].UpdateOnly)
	require.Equal(t, peer.Keepalive, *changes[1].PersistentKeepaliveInterval)
	require.Equal(t, "240.0.0.0/16", changes[1].AllowedIPs[0].String())

	at := func(endpoint netip.AddrPort) *net.UDPAddr { return net.UDPAddrFromAddrPort(endpoint) }
	for name, state := range map[string]wgtypes.Peer{
		"silent": {Endpoint: at(netip.MustParseAddrPort("192.0.2.2:2"))}, "parked": {Endpoint: at(nowhere())},
		"heard of": {LastHandshakeTime: time.Unix(1_000_000, 0)},
	} {
		changes := redirection(peer, state, to)
		require.Len(t, changes, 1, name)
		require.True(t, changes[0].UpdateOnly, name)
		require.Equal(t, to.String(), changes[0].Endpoint.String())
	}
}

// A peer that is known by a name alone is dialed where it was, while the name does
// not resolve.
func TestParkedPeerWithoutName(t *testing.T) {
	resolver := newResolver(t.Context())
	defer resolver.close()
	peer := plan.Peer{PublicKey: wgtypes.Key{1}, Endpoints: []string{"gateway.invalid:51847"}, Yields: true}
	was := netip.MustParseAddrPort("192.0.2.1:1")
	state := wgtypes.Peer{PublicKey: peer.PublicKey, Endpoint: net.UDPAddrFromAddrPort(was)}
	book, now, dialed := newEndpointBook(t.TempDir()+"/endpoints.json"), time.Unix(1_000_000, 0), 0
	for range 20 {
		now = now.Add(2 * time.Second)
		endpoint, _ := book.next("weft0", peer, state, resolver, now)
		if endpoint == was {
			dialed++
		}
		if endpoint.IsValid() {
			state.Endpoint = net.UDPAddrFromAddrPort(endpoint)
		}
	}
	require.Equal(t, 2, dialed)
}

func TestEndpointThatDoesNotResolve(t *testing.T) {
	book := newEndpointBook(t.TempDir() + "/endpoints.json")
	resolver := newResolver(t.Context())
	defer resolver.close()
	peer := plan.Peer{Endpoints: []string{"gateway.invalid:51847", "192.0.2.2:2"}}
	start := time.Now()
	endpoint, err := book.first("weft0", peer, resolver, start)
	require.Equal(t, netip.MustParseAddrPort("192.0.2.2:2"), endpoint, "the next one serves")
	require.ErrorContains(t, err, `endpoint "gateway.invalid:51847" does not resolve, check the name or give an address`)
	require.Less(t, time.Since(start), resolveTimeout+time.Second)
	require.Empty(t, newEndpointBook("/nonexistent/endpoints.json").heard)
}

// A peer's host name must not lead a tunnel to where an address in its record
// may not point.
func TestChooseAddress(t *testing.T) {
	tests := map[string]struct {
		answers []string
		want    string
	}{
		"IPv4 before IPv6": {[]string{"2001:db8::1", "192.0.2.1", "192.0.2.2"}, "192.0.2.1"},
		"mapped":           {[]string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		"IPv6 alone":       {[]string{"2001:db8::1"}, "2001:db8::1"},
		"metadata first":   {[]string{"169.254.169.254", "192.0.2.1"}, "192.0.2.1"},
		"mapped loopback":  {[]string{"::ffff:127.0.0.1", "2001:db8::1"}, "2001:db8::1"},
		"loopback alone":   {[]string{"127.0.0.1", "::1"}, ""},
		"nothing":          {nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var answers []netip.Addr
			for _, a := range test.answers {
				answers = append(answers, netip.MustParseAddr(a))
			}
			chosen, err := chooseAddress(answers)
			if test.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, chosen.String())
		})
	}
}
