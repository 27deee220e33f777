package stream_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/traffic/stream"
)

func receiver(t *testing.T) (*stream.Receiver, netip.AddrPort) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	r, err := stream.NewReceiver(conn)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		conn.Close()
		require.NoError(t, <-done)
	})
	return r, netip.MustParseAddrPort(conn.LocalAddr().String())
}

// Two flows at once to one receiver over loopback, which loses nothing: every
// number arrives once, in order, and the sender keeps to its schedule.
func TestStreamCountsTwoFlows(t *testing.T) {
	r, target := receiver(t)
	results := make(chan stream.Sent, 2)
	for flow := range uint32(2) {
		go func() {
			sent, err := stream.Send(t.Context(), stream.SendRequest{
				Flow: flow, Target: target, PacketsPerSecond: 1000, DurationMilliseconds: 500,
			}, func(stream.Sent) {})
			if err != nil {
				t.Error(err)
			}
			results <- sent
		}()
	}
	for range 2 {
		sent := <-results
		require.EqualValues(t, 500, sent.Sent)
		require.True(t, sent.Done)
		require.Zero(t, sent.Errors)
		require.GreaterOrEqual(t, sent.End.Sub(sent.Start), 490*time.Millisecond)
		require.Eventually(t, func() bool { return r.Received(sent.Flow).Distinct == 500 }, 5*time.Second, 5*time.Millisecond)
		got := r.Received(sent.Flow)
		require.Zero(t, got.Duplicated+got.Reordered+got.MissingBelowHighest)
		require.Zero(t, got.SocketDropped)
		r.Forget(sent.Flow)
		require.Zero(t, r.Received(sent.Flow).Distinct)
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	_, target := receiver(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{}, 1)
	done := make(chan stream.Sent, 1)
	go func() {
		sent, _ := stream.Send(ctx, stream.SendRequest{
			Target: target, PacketsPerSecond: 1000, DurationMilliseconds: 600_000,
		}, func(stream.Sent) {
			select {
			case started <- struct{}{}:
			default:
			}
		})
		done <- sent
	}()
	<-started
	cancel()
	require.Less(t, (<-done).Sent, uint64(60_000))
}

func TestStreamRefusesNonsense(t *testing.T) {
	for name, req := range map[string]stream.SendRequest{
		"rate":             {DurationMilliseconds: 1},
		"duration":         {PacketsPerSecond: 1},
		"numbered":         {PacketsPerSecond: 1, DurationMilliseconds: 1, Bytes: 3},
		"more than":        {PacketsPerSecond: 100_000, DurationMilliseconds: 600_000},
		"packets a second": {PacketsPerSecond: 1 << 30, DurationMilliseconds: 1},
	} {
		_, err := stream.Send(t.Context(), req, func(stream.Sent) {})
		require.ErrorContains(t, err, name)
	}
}
