package steady

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/traffic/echo"
)

// server runs handle on every connection to a loopback address.
func server(t *testing.T, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if echo.Greet(conn) == nil {
					handle(conn)
				}
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func run(t *testing.T, target netip.AddrPort) Report {
	t.Helper()
	report, err := Run(t.Context(), Request{ID: 7, Target: target, BytesPerSecond: 1_000_000, DurationMilliseconds: 300}, func(Report) {})
	require.NoError(t, err)
	require.True(t, report.Done)
	return report
}

// Against the real echo server every byte comes back.
func TestEveryByteComesBack(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		l.Close()
	})
	go func() { _ = echo.ServeTCP(ctx, l) }()
	report := run(t, netip.MustParseAddrPort(l.Addr().String()))
	require.True(t, report.OK(), "%+v", report)
	require.Equal(t, report.Local, report.ObservedSource)
	require.Greater(t, report.Verified, int64(50_000))
	require.Empty(t, report.Error)
}

// A server that changes, drops or repeats a byte is found out; so is one that
// resets or ends the connection.
func TestFaultsAreTold(t *testing.T) {
	tamper := func(change func([]byte) []byte) func(net.Conn) {
		return func(conn net.Conn) {
			b := make([]byte, 20_000)
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			if _, err := conn.Write(change(b)); err == nil {
				_, _ = io.Copy(conn, conn)
			}
		}
	}
	for name, c := range map[string]struct {
		handle  func(net.Conn)
		corrupt bool
	}{
		"changed":  {tamper(func(b []byte) []byte { b[17_000] ^= 1; return b }), true},
		"dropped":  {tamper(func(b []byte) []byte { return append(b[:9000], b[9001:]...) }), true},
		"repeated": {tamper(func(b []byte) []byte { return append(b[:9000:9000], b[8999:]...) }), true},
		"reset": {func(conn net.Conn) {
			_, _ = io.CopyN(conn, conn, 20_000)
			_ = conn.(*net.TCPConn).SetLinger(0)
		}, false},
		"ended": {func(conn net.Conn) {
			_, _ = io.CopyN(conn, conn, 20_000)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			report := run(t, server(t, c.handle))
			require.False(t, report.OK())
			require.Equal(t, c.corrupt, report.Corrupt, "%+v", report)
			require.Equal(t, !c.corrupt, report.Broken, "%+v", report)
			require.NotEmpty(t, report.Error)
		})
	}
}

// While nothing comes back the connection waits; the report says for how long.
func TestSilenceIsMeasured(t *testing.T) {
	target := server(t, func(conn net.Conn) {
		_, _ = io.CopyN(conn, conn, 20_000)
		time.Sleep(100 * time.Millisecond)
		_, _ = io.Copy(conn, conn)
	})
	report := run(t, target)
	require.True(t, report.OK(), "%+v", report)
	require.GreaterOrEqual(t, report.LongestSilenceMicroseconds, int64(80_000))
	require.WithinRange(t, report.LongestSilenceEnd, report.Start, report.End)
}

func TestRunRefusesNonsense(t *testing.T) {
	for want, req := range map[string]Request{
		"no duration":    {},
		"not a rate":     {BytesPerSecond: -1, DurationMilliseconds: 1},
		"open a steady":  {DurationMilliseconds: 1, Target: netip.MustParseAddrPort("127.0.0.1:1")},
		"ask for 1 to 3": {DurationMilliseconds: 1 << 30},
	} {
		_, err := Run(t.Context(), req, func(Report) {})
		require.ErrorContains(t, err, want)
	}
}
