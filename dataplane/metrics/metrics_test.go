package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	body, err := io.ReadAll(recorder.Body)
	require.NoError(t, err)
	return recorder.Code, string(body)
}

func TestMetricsTellWhatTheSourcesSay(t *testing.T) {
	var unready error = errors.New("the first plan is not applied yet")
	s := New(Sources{
		Counters: func() ([]Counter, error) {
			return []Counter{
				{Neighbor: "b", Direction: "lane_ingress", Reason: "forwarded", Packets: 12, Bytes: 1200},
				{Direction: "overlay_ingress", Reason: "wrong_vni", Packets: 1, Bytes: 60},
				{Direction: "host", Reason: "access_not_granted", Packets: 6, Bytes: 360},
			}, nil
		},
		Measurements: func() agent.Measurements {
			return agent.Measurements{
				Paths: []agent.Path{{Cluster: "b", Via: "c", OwnGateway: 1, RemoteGateway: 2, OuterFragments: 4, LargeLost: true, Active: true,
					Measurement: agent.Measurement{State: v1alpha1.PathUp, RTTMicroseconds: 20500, JitterMicroseconds: 100, LossPermille: 50}}},
				Nodes: []agent.Node{{Name: "a2", Measurement: agent.Measurement{State: v1alpha1.PathDown}}},
			}
		},
		Maps: func() ([]MapFill, error) { return nil, errors.New("gone") },
		Lanes: func() ([]LanePeer, error) {
			return []LanePeer{{Device: "weft0", Neighbor: "b", RemoteGateway: 2, LastHandshake: time.Unix(1700000000, 0), SentBytes: 7}}, nil
		},
		Ready: func() error { return unready },
	})
	code, body := get(t, s.Handler(), "/metrics")
	require.Equal(t, http.StatusOK, code)
	for _, line := range []string{
		`weft_packets_total{direction="lane_ingress",neighbor="b",reason="forwarded"} 12`,
		`weft_bytes_total{direction="overlay_ingress",neighbor="",reason="wrong_vni"} 60`,
		`weft_path_up{cluster="b",own_gateway="1",remote_gateway="2",via="c"} 1`,
		`weft_path_rtt_seconds{cluster="b",own_gateway="1",remote_gateway="2",via="c"} 0.0205`,
		`weft_path_loss_ratio{cluster="b",own_gateway="1",remote_gateway="2",via="c"} 0.05`,
		`weft_path_outer_fragments_total{cluster="b",own_gateway="1",remote_gateway="2",via="c"} 4`,
		`weft_path_large_lost{cluster="b",own_gateway="1",remote_gateway="2",via="c"} 1`,
		`weft_path_active{cluster="b",own_gateway="1",remote_gateway="2",via="c"} 1`,
		`weft_packets_total{direction="host",neighbor="",reason="access_not_granted"} 6`,
		`weft_node_up{node="a2"} 0`,
		`weft_source_up{source="maps"} 0`,
		`weft_source_up{source="counters"} 1`,
		`weft_lane_last_handshake_timestamp_seconds{device="weft0",neighbor="b",remote_gateway="2"} 1.7e+09`,
	} {
		require.Contains(t, body, line+"\n")
	}
	require.NotContains(t, body, "weft_node_rtt_seconds", "a dead node has no round-trip time")

	code, _ = get(t, s.Handler(), "/healthz")
	require.Equal(t, http.StatusOK, code)
	code, body = get(t, s.Handler(), "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, unready.Error())
	unready = nil
	code, _ = get(t, s.Handler(), "/readyz")
	require.Equal(t, http.StatusOK, code)
}

func TestRunEndsWithItsContextAndNamesABusyPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.ErrorContains(t, New(Sources{}).Run(t.Context(), address), "another process")
	require.NoError(t, listener.Close())

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- New(Sources{}).Run(ctx, address) }()
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	}, 5*time.Second, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}
