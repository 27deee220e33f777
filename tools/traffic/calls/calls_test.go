package calls

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/traffic/echo"
)

// An echo server on every address of the loopback device.
func serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- echo.ServeTCP(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, l.Close())
		require.NoError(t, <-done)
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func TestCallsTellWhoAnsweredAndWhomTheySaw(t *testing.T) {
	port := serve(t)
	got, err := Run(t.Context(), Request{Target: "127.77.0.9:" + port, Count: 50})
	require.NoError(t, err)
	require.Empty(t, got.Errors)
	require.Equal(t, 50, got.Answered)
	require.Equal(t, map[string]int{"127.77.0.9": 50}, got.Servers)
	require.Equal(t, map[string]int{"127.0.0.1": 50}, got.Sources)
	require.Positive(t, got.SlowestMilliseconds)
}

func TestCallsByName(t *testing.T) {
	got, err := Run(t.Context(), Request{Target: "localhost:" + serve(t), Count: 3, Parallel: 1})
	require.NoError(t, err)
	require.Equal(t, 3, got.Answered)
}

func TestCallsThatFailAreCounted(t *testing.T) {
	got, err := Run(t.Context(), Request{Target: "127.77.0.9:1", Count: 20})
	require.NoError(t, err)
	require.Equal(t, 20, got.Calls)
	require.Zero(t, got.Answered)
	require.Len(t, got.Errors, mostErrors)
	require.Contains(t, got.Errors[0], "connect to the echo server")
}

func TestWhatCannotBeCalled(t *testing.T) {
	for want, req := range map[string]Request{
		"0 calls cannot":           {Target: "a:1"},
		"-1 calls at a time":       {Target: "a:1", Count: 1, Parallel: -1},
		"read the target: address": {Target: "a", Count: 1},
	} {
		_, err := Run(t.Context(), req)
		require.ErrorContains(t, err, want)
	}
}
