package ping

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Pings to loopback are answered by the kernel and seen by the watcher with
// the source that they had.
func TestRunIsAnsweredAndSeen(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	w, err := Watch(loopback)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		w.Close()
		require.NoError(t, <-done)
	})

	result, err := Run(t.Context(), Request{Target: loopback, Count: 20})
	require.NoError(t, err)
	require.Equal(t, 20, result.Sent)
	require.Equal(t, 20, result.Received)
	require.Positive(t, result.MinimumMicroseconds)
	require.LessOrEqual(t, result.MinimumMicroseconds, result.MedianMicroseconds)
	require.LessOrEqual(t, result.MedianMicroseconds, result.P99Microseconds)
	require.LessOrEqual(t, result.P99Microseconds, result.MaximumMicroseconds)
	require.Eventually(t, func() bool {
		from, ok := w.Seen(result.Nonce)
		return ok && from == loopback
	}, 5*time.Second, time.Millisecond)
}

func TestRunRefusesNonsense(t *testing.T) {
	_, err := Run(t.Context(), Request{Target: netip.MustParseAddr("fd00::1")})
	require.ErrorContains(t, err, "not an IPv4 address")
	_, err = Run(t.Context(), Request{Target: netip.MustParseAddr("127.0.0.1"), Bytes: 3})
	require.ErrorContains(t, err, "of 3 bytes")
}

func TestMedianOfEvenAndOddCounts(t *testing.T) {
	for want, rtts := range map[float64][]time.Duration{
		2000: {3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond},
		1500: {2 * time.Millisecond, time.Millisecond},
		1000: {time.Millisecond},
	} {
		var r Result
		r.summarize(rtts)
		require.InDelta(t, want, r.MedianMicroseconds, 0)
	}
	var none Result
	none.summarize(nil)
	require.Zero(t, none.Received)
}

// An echo request as RFC 792 draws it, checksum computed by hand: 0x0800 +
// 0x1234 + 0x0001 + 0x5765 + 0x6674 + 0x0000 + 0x0000 + 0x0000 + 0x0007 =
// 0xd815, complement 0x27ea.
func TestEncodeWritesTheChecksum(t *testing.T) {
	b := make([]byte, headerBytes)
	message{kind: typeEchoRequest, id: 0x1234, sequence: 1, nonce: 7}.encode(b)
	require.Equal(t, []byte{8, 0, 0x27, 0xea, 0x12, 0x34, 0, 1, 0x57, 0x65, 0x66, 0x74, 0, 0, 0, 0, 0, 0, 0, 7}, b)

	m, ok := decode(b)
	require.True(t, ok)
	require.Equal(t, message{kind: 8, id: 0x1234, sequence: 1, nonce: 7}, m)
	b[19]++
	_, ok = decode(b)
	require.False(t, ok, "a damaged message is not ours")
}

func TestWatcherForgetsTheOldest(t *testing.T) {
	w := &Watcher{seen: map[uint64]netip.Addr{}}
	for nonce := range uint64(maxRemembered + 1) {
		w.remember(nonce, netip.MustParseAddr("192.0.2.1"))
	}
	_, ok := w.Seen(0)
	require.False(t, ok)
	_, ok = w.Seen(maxRemembered)
	require.True(t, ok)
	require.Len(t, w.seen, maxRemembered)
}
