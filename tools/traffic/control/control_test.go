package control_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/traffic/bulk"
	"github.com/weft-fabric/weft/tools/traffic/calls"
	"github.com/weft-fabric/weft/tools/traffic/control"
	"github.com/weft-fabric/weft/tools/traffic/echo"
	"github.com/weft-fabric/weft/tools/traffic/ping"
	"github.com/weft-fabric/weft/tools/traffic/steady"
	"github.com/weft-fabric/weft/tools/traffic/stream"
)

// Two servers on loopback addresses of their own stand for two pods; the first
// is told to be a client of the second.
var (
	first  = netip.MustParseAddr("127.77.0.1")
	second = netip.MustParseAddr("127.77.0.2")
)

const base = 17000

func start(t *testing.T, address netip.Addr) string {
	t.Helper()
	server, err := control.Listen(control.Options{Address: address, BasePort: base})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return server.ControlAddress().String()
}

func call[Answer any](t *testing.T, address, path string, request any) Answer {
	t.Helper()
	body, err := json.Marshal(request)
	require.NoError(t, err)
	data, err := control.Call(t.Context(), address, path, body)
	require.NoError(t, err)
	var answer Answer
	require.NoError(t, json.Unmarshal(data, &answer))
	return answer
}

func TestAPIRunsEveryKindOfTraffic(t *testing.T) {
	a, b := start(t, first), start(t, second)
	at := func(offset uint16) netip.AddrPort { return netip.AddrPortFrom(second, base+offset) }

	tcp := call[echo.Result](t, a, control.PathEchoTCP, echo.Request{Target: at(control.EchoOffset)})
	require.Equal(t, tcp.LocalAddress, tcp.ObservedSource)
	udp := call[echo.Result](t, a, control.PathEchoUDP, echo.Request{Target: at(control.EchoOffset), Bytes: 8192})
	require.Equal(t, 8192, udp.Bytes)

	called := call[calls.Result](t, a, control.PathCalls, calls.Request{Target: at(control.EchoOffset).String(), Count: 5})
	require.Equal(t, map[string]int{second.String(): 5}, called.Servers)

	moved := call[bulk.Result](t, a, control.PathBulk, bulk.Request{Target: at(control.BulkOffset), Direction: bulk.Upload, Bytes: 1 << 20, Verify: true})
	require.EqualValues(t, 1<<20, moved.Bytes)

	pings := call[ping.Result](t, a, control.PathPing, ping.Request{Target: second, Count: 2})
	require.Equal(t, 2, pings.Received)
	require.Eventually(t, func() bool {
		return call[control.PingSeen](t, b, control.PathPingSeen, control.PingSeen{Nonce: pings.Nonce}).Source != ""
	}, 5*time.Second, 5*time.Millisecond)

	flow := control.Flow{Flow: 5}
	call[stream.Sent](t, a, control.PathSend, stream.SendRequest{
		Flow: flow.Flow, Target: at(control.StreamOffset), PacketsPerSecond: 1000, DurationMilliseconds: 60_000,
	})
	require.Eventually(t, func() bool {
		return call[stream.Received](t, b, control.PathReceived, flow).Distinct > 20
	}, 5*time.Second, 5*time.Millisecond)
	sent := call[stream.Sent](t, a, control.PathStop, flow)
	require.True(t, sent.Done)
	require.Eventually(t, func() bool {
		return call[stream.Received](t, b, control.PathReceived, flow).Distinct == sent.Sent
	}, 5*time.Second, 5*time.Millisecond)
	call[steady.Report](t, a, control.PathSteady, steady.Request{ID: 5, Target: at(control.EchoOffset), DurationMilliseconds: 60_000})
	require.Eventually(t, func() bool {
		return call[steady.Report](t, a, control.PathSteadyNow, flow).Verified > 1000
	}, 5*time.Second, 5*time.Millisecond)
	require.True(t, call[steady.Report](t, a, control.PathSteadyStop, flow).OK())
	call[control.Flow](t, b, control.PathForget, flow)
	require.Zero(t, call[stream.Received](t, b, control.PathReceived, flow).Distinct)
}

func TestAPIReportsFailures(t *testing.T) {
	a := start(t, first)
	_, err := control.Call(t.Context(), a, control.PathEchoTCP, []byte(`{"target":"127.77.0.3:1"}`))
	require.ErrorContains(t, err, "connect to the echo server")
	_, err = control.Call(t.Context(), a, control.PathEchoTCP, []byte(`{"nonsense":1}`))
	require.ErrorContains(t, err, "nonsense")
	_, err = control.Call(t.Context(), a, control.PathLookup, []byte(`{"name":"echo","type":"MX"}`))
	require.ErrorContains(t, err, "not asked for here")
	_, err = control.Call(t.Context(), a, control.PathStop, []byte(`{"flow":9}`))
	require.ErrorContains(t, err, "flow 9 does not run here")
	_, err = control.Call(t.Context(), a, "/v1/other", nil)
	require.ErrorContains(t, err, "404")
}

func TestListenNamesAPortThatIsTaken(t *testing.T) {
	start(t, first)
	_, err := control.Listen(control.Options{Address: first, BasePort: base})
	require.ErrorContains(t, err, "listen on TCP 127.77.0.1:17000")
}
