package echo_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/traffic/echo"
)

// A client on loopback talks to both servers: the server names the client's
// own address, and the bytes come back.
func servers(t *testing.T) (tcp, udp netip.AddrPort) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	done := make(chan error, 2)
	go func() { done <- echo.ServeTCP(ctx, l) }()
	go func() { done <- echo.ServeUDP(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		l.Close()
		c.Close()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
	return netip.MustParseAddrPort(l.Addr().String()), netip.MustParseAddrPort(c.LocalAddr().String())
}

func TestEchoTellsTheSourceItSaw(t *testing.T) {
	tcp, udp := servers(t)
	for name, size := range map[string]int{"small": 64, "large": 60000} {
		t.Run(name, func(t *testing.T) {
			overTCP, err := echo.TCP(t.Context(), echo.Request{Target: tcp, Bytes: size})
			require.NoError(t, err)
			require.Equal(t, overTCP.LocalAddress, overTCP.ObservedSource)
			require.Positive(t, overTCP.RTTMicroseconds)

			overUDP, err := echo.UDP(t.Context(), echo.Request{Target: udp, Bytes: size, Attempts: 3})
			require.NoError(t, err)
			require.Equal(t, overUDP.LocalAddress, overUDP.ObservedSource)
			require.Equal(t, size, overUDP.Bytes)
		})
	}
}

// More than both sockets can buffer: an exchange that wrote everything before
// it read would hang.
func TestEchoTCPOfManyBytes(t *testing.T) {
	tcp, _ := servers(t)
	result, err := echo.TCP(t.Context(), echo.Request{Target: tcp, Bytes: 32 << 20, TimeoutMilliseconds: 30000})
	require.NoError(t, err)
	require.Equal(t, 32<<20, result.Bytes)
}

func TestEchoOfASilentServerEnds(t *testing.T) {
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer silent.Close()
	start := time.Now()
	_, err = echo.UDP(t.Context(), echo.Request{
		Target: netip.MustParseAddrPort(silent.LocalAddr().String()), Attempts: 2, TimeoutMilliseconds: 50,
	})
	require.ErrorContains(t, err, "no answer within 50ms")
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestEchoRefusesSizesThatCannotWork(t *testing.T) {
	_, udp := servers(t)
	for _, size := range []int{1, echo.MaxDatagramBytes + 1} {
		_, err := echo.UDP(t.Context(), echo.Request{Target: udp, Bytes: size})
		require.ErrorContains(t, err, "cannot be echoed")
	}
}
