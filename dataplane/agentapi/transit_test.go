package agentapi

import (
	"bytes"
	"io"
	"net/netip"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func neighbor(index int32, channel string, transit ...int32) v1alpha1.Neighbor {
	n := v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{ClusterIndex: index, Transit: transit}}
	if channel != "" {
		n.Spec.Peers = []v1alpha1.NeighborPeer{{GatewayID: 1, ChannelAddress: channel}}
	}
	return n
}

// Either of two neighbors names the other: both ways are open, and no others.
func TestTransitOf(t *testing.T) {
	hub := neighbor(3, "fd79::3")
	hub.Spec.Rows = []v1alpha1.Row{
		{Side: v1alpha1.RowOurs, OriginIndex: 3}, {Side: v1alpha1.RowOurs, OriginIndex: 7}, {Side: v1alpha1.RowOurs, OriginIndex: 8},
		{Side: v1alpha1.RowOurs, OriginIndex: 7, NetworkIndex: 2}, {Side: v1alpha1.RowTheirs, OriginIndex: 9}, {Side: v1alpha1.RowOurs},
	}
	transit := TransitOf([]v1alpha1.Neighbor{
		neighbor(1, "fd79::1", 2, 7, 1), neighbor(2, "fd79::2"), hub, neighbor(7, ""), neighbor(9, "nonsense", 1),
	})
	one, two, three := netip.MustParseAddr("fd79::1"), netip.MustParseAddr("fd79::2"), netip.MustParseAddr("fd79::3")
	require.Equal(t, map[netip.Addr]int32{one: 1, two: 2, three: 3}, transit.Clusters)
	require.Equal(t, map[int32]int{3: 2}, transit.Behind)
	for _, test := range []struct {
		from, to netip.Addr
		allowed  bool
	}{
		{one, two, true}, {two, one, true}, {one, three, false}, {three, two, false}, {one, one, false},
		{one, netip.MustParseAddr("fd79::9"), false}, {netip.Addr{}, two, false},
	} {
		_, allowed := transit.pair(test.from, test.to)
		require.Equal(t, test.allowed, allowed, "%s to %s", test.from, test.to)
	}
	_, allowed := Transit{}.pair(one, two)
	require.False(t, allowed, "the zero Transit")
}

func TestPermits(t *testing.T) {
	a, b, c, far := netip.MustParseAddr("fd79::a"), netip.MustParseAddr("fd79::b"), netip.MustParseAddr("fd79::c"), netip.MustParseAddr("fd79::f")
	own := netip.MustParseAddr("fd79::1")
	state := State{ChannelAddress: own, Peers: []netip.Addr{a, b, c}, Transit: TransitOf([]v1alpha1.Neighbor{
		neighbor(1, a.String(), 2), neighbor(2, b.String()), neighbor(3, c.String()), neighbor(6, far.String(), 1),
	})}
	tests := map[string]struct {
		passage passage
		refused string
	}{
		"in":                      {passage{from: a}, ""},
		"in from a stranger":      {passage{from: far}, "not the channel of a known neighbor"},
		"out":                     {passage{to: a}, ""},
		"out to a stranger":       {passage{to: far}, "not the channel of a known neighbor"},
		"out through a hub":       {passage{to: far, hub: c}, ""},
		"a neighbor by a hub":     {passage{to: b, hub: c}, ""},
		"hub is a stranger":       {passage{to: a, hub: far}, "[fd79::f]:9811 is not the channel of a known neighbor"},
		"anywhere":                {passage{to: netip.MustParseAddr("2001:db8::1"), hub: c}, "not the channel of a cluster behind a hub"},
		"IPv4":                    {passage{to: netip.MustParseAddr("127.0.0.1"), hub: c}, "not the channel of a cluster behind a hub"},
		"the hub itself":          {passage{to: c, hub: c}, "not the channel of a cluster behind a hub"},
		"ourselves":               {passage{to: own, hub: c}, "not the channel of a cluster behind a hub"},
		"transit":                 {passage{from: a, to: b}, ""},
		"transit back":            {passage{from: b, to: a}, ""},
		"no grant":                {passage{from: a, to: c}, "access.transit.neighbors"},
		"to itself":               {passage{from: a, to: a}, "access.transit.neighbors"},
		"granted, but no peer":    {passage{from: a, to: far}, "not the channel of a known neighbor"},
		"from, granted, but none": {passage{from: far, to: a}, "not the channel of a known neighbor"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := state.permits(test.passage)
			if test.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.refused)
			require.Error(t, State{Peers: state.Peers, Transit: state.Transit}.permits(test.passage), "a plain node")
		})
	}
	require.ErrorContains(t, State{}.permits(passage{to: a}), "no gateway")
}

// Channels of clusters behind a hub come from the hub's address: it may have
// more. Both directions of a pair count together, whatever gateways they use.
func TestBounds(t *testing.T) {
	a, b, b2 := netip.MustParseAddr("fd79::a"), netip.MustParseAddr("fd79::b"), netip.MustParseAddr("fd79::b2")
	state := State{Transit: Transit{Clusters: map[netip.Addr]int32{a: 1, b: 2, b2: 2}, Pairs: map[Pair]bool{{1, 2}: true}, Behind: map[int32]int{2: 3}}}
	_, most := state.bound(passage{from: a})
	require.Equal(t, peerLimit, most)
	_, most = state.bound(passage{from: b})
	require.Equal(t, peerLimit+3*behindLimit, most)
	there, most := state.bound(passage{from: a, to: b})
	require.Equal(t, pairLimit, most)
	back, _ := state.bound(passage{from: b2, to: a})
	require.Equal(t, there, back)
	direct, _ := state.bound(passage{to: b})
	byHub, _ := state.bound(passage{to: b, hub: a})
	require.Equal(t, direct, byHub)
	require.NotEqual(t, direct, there)

	var all splices
	for range pairLimit {
		_, err := all.enter(passage{from: a, to: b}, there, pairLimit)
		require.NoError(t, err)
	}
	_, err := all.enter(passage{from: b2, to: a}, back, pairLimit)
	require.ErrorContains(t, err, "too many channels")
	for i := range transitLimit - pairLimit {
		_, err := all.enter(passage{from: a, to: b}, group{pair: Pair{3, int32(i)}}, 1)
		require.NoError(t, err)
	}
	_, err = all.enter(passage{from: a, to: b}, group{pair: Pair{2, 1}}, 1)
	require.ErrorContains(t, err, "too many channels", "in all")
	_, err = all.enter(passage{from: a}, group{from: a}, 1)
	require.NoError(t, err, "our own controller's are counted apart")
}

// readOpening comes to the same answer however the bytes arrive, and loses none.
func TestReadOpening(t *testing.T) {
	target := netip.MustParseAddr("fd79:1:2:3:4:5:6:7")
	begin := preamble(target)
	require.Len(t, begin, 24)
	hello := []byte{0x16, 3, 1, 0, 200, 1}
	tests := map[string]struct {
		bytes  []byte
		target netip.Addr
		fails  bool
	}{
		"TLS":                   {bytes: hello},
		"preamble":              {append(bytes.Clone(begin), hello...), target, false},
		"almost the preamble":   {bytes: []byte("WEFTSPL2 and more")},
		"another protocol":      {bytes: []byte("GET / HTTP/1.1\r\n\r\n")},
		"silence":               {nil, netip.Addr{}, true},
		"part of the magic":     {begin[:5], netip.Addr{}, true},
		"part of the target":    {begin[:20], netip.Addr{}, true},
		"nothing after":         {begin, netip.Addr{}, true},
		"a hub behind a hub":    {append(bytes.Clone(begin), append(preamble(target), hello...)...), netip.Addr{}, true},
		"no TLS after":          {append(bytes.Clone(begin), "GET /"...), netip.Addr{}, true},
		"no channel's address":  {append(preamble(netip.MustParseAddr("2001:db8::1")), hello...), netip.Addr{}, true},
		"an IPv4-mapped target": {append(preamble(netip.MustParseAddr("::ffff:127.0.0.1")), hello...), netip.Addr{}, true},
	}
	readers := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "one by one": iotest.OneByteReader, "end with the data": iotest.DataErrReader,
	}
	for name, test := range tests {
		for way, reader := range readers {
			t.Run(name+" "+way, func(t *testing.T) {
				in := reader(bytes.NewReader(test.bytes))
				got, err := readOpening(in)
				if test.fails {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, test.target, got.target)
				rest, err := io.ReadAll(in)
				require.NoError(t, err)
				want := test.bytes
				if test.target.IsValid() {
					want = hello
				}
				require.Equal(t, want, append(got.head, rest...))
			})
		}
	}
}
