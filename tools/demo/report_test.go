package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/traffic/calls"
)

var seen = netip.MustParseAddr("100.71.0.9")

func pairResult(checks ...measure.Check) measure.PairResult {
	return measure.PairResult{Checks: checks}
}

func good(bytes int) measure.Check {
	return measure.Check{Protocol: measure.UDP, Bytes: bytes, OK: true, Source: seen, SourceOK: true}
}

// A pair counts as good only if each of its checks is; a wrong source is told
// apart from a failed exchange.
func TestReportCountsPairs(t *testing.T) {
	var r report
	r.count(pairResult(good(64), good(60000)))
	r.count(pairResult(good(64), measure.Check{Bytes: 60000, Err: errors.New("no answer")}))
	r.count(pairResult(good(64), measure.Check{Bytes: 64, OK: true, Source: seen}))
	require.Equal(t, report{PairsTested: 3, PairsOK: 2, SourcesOK: 1, ChecksRun: 6, ChecksOK: 4, LargeDatagramBytes: 60000}, r)
}

func TestReportIsOneFlatObject(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out", "demo.json")
	require.NoError(t, (&report{PairsTested: 8, RTT: 20.5}).write(path))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var flat map[string]any
	require.NoError(t, json.Unmarshal(data, &flat))
	for _, name := range []string{
		"pairs_tested", "pairs_ok", "sources_ok", "rtt_ms", "bare_wireguard_rtt_ms", "mbit_s", "bare_wireguard_mbit_s", "ratio",
		"hub_rtt_ms", "direct_rtt_ms", "failover_ms", "restore_lost_packets", "tcp_resets", "switch_lost_packets",
	} {
		require.IsType(t, float64(0), flat[name], name)
	}
	require.IsType(t, float64(0), flat["endpoint_propagation_ms"])
	for _, name := range []string{"dns_ok", "service_calls_ok", "service_source_ok"} {
		require.Equal(t, false, flat[name], name)
	}
	require.InDelta(t, 20.5, flat["rtt_ms"], 0)
}

func TestVerdictNamesWhatIsNotMet(t *testing.T) {
	d := demo{options: options{nodes: 2, leastRatio: 0.8}}
	d.report = report{
		PairsTested: 24, PairsOK: 24, SourcesOK: 24, TransfersVerified: 2, RTT: 41, BareRTT: 41, Ratio: 0.9,
		LeastRate: 998, HubRTT: 82, HubPackets: 4000, HubTransit: 4100, DirectRTT: 21.4, DirectPackets: 4000,
		Failover: 400, FailoverLost: 800, Connections: 2, TCPComplete: 2,
		DNSOK: true, ServiceCalls: 3000, ServiceAnswered: 3000, ServiceCallsOK: true, ServiceSourceOK: true, EndpointChanges: 20, EndpointPropagation: 300,
	}
	require.NoError(t, d.verdict())
	for want, breakIt := range map[string]func(*report){
		"came back: 23, wanted: 24":                  func(r *report) { r.PairsOK = 23 },
		"right source each time: 23":                 func(r *report) { r.SourcesOK = 23 },
		"pairs tried: 16, wanted: 24":                func(r *report) { r.PairsTested, r.PairsOK, r.SourcesOK = 16, 16, 16 },
		"bytes verified, a-c: 1":                     func(r *report) { r.TransfersVerified = 1 },
		"0.79 of bare":                               func(r *report) { r.Ratio = 0.79 },
		"through c: 85.100 ms, wanted: 80":           func(r *report) { r.HubRTT = 85.1 },
		"directly: 16.900 ms, wanted: 20":            func(r *report) { r.DirectRTT = 16.9 },
		"c forwards between a and b: 3999":           func(r *report) { r.HubTransit = 3999 },
		"while 4000 went directly: 1":                func(r *report) { r.DirectTransit = 1 },
		"switch to the direct link: 1":               func(r *report) { r.SwitchLost = 1 },
		"each way: at least 989":                     func(r *report) { r.LeastRate = 989 },
		"silent cut: 1001 ms":                        func(r *report) { r.Failover = 1001 },
		"return to the direct link: 2":               func(r *report) { r.RestoreLost = 2 },
		"end of the direct link: 3":                  func(r *report) { r.RemovalLost = 3 },
		"connections reset: 1, wanted: 0":            func(r *report) { r.TCPResets = 1 },
		"carried every byte: 1, 0 bytes, wanted: 2;": func(r *report) { r.TCPComplete = 1 },
		"is exported: no, wanted: yes; see `weftctl": func(r *report) { r.DNSOK = false },
		"every backend: 2999, every backend: yes":    func(r *report) { r.ServiceAnswered = 2999 },
		"every backend: 3000, every backend: no":     func(r *report) { r.ServiceCallsOK = false },
		"translated: no, wanted: yes":                func(r *report) { r.ServiceSourceOK = false },
		"slowest of 20 changes from endpoints":       func(r *report) { r.EndpointPropagation = 2001 },
		"slowest of 19 changes":                      func(r *report) { r.EndpointChanges = 19 },
	} {
		broken := d
		breakIt(&broken.report)
		require.ErrorContains(t, broken.verdict(), want)
	}
}

// Calls count as good only if all of them are; the worst of all changes stays.
func TestReportOfServices(t *testing.T) {
	r := report{ServiceCallsOK: true, ServiceSourceOK: true}
	source := netip.MustParseAddr("10.244.0.7")
	good := measure.CallReport{Caller: measure.Caller{Source: seen}, Backends: []netip.Addr{source}, Result: calls.Result{
		Calls: 9, Answered: 9, Servers: map[string]int{source.String(): 9}, Sources: map[string]int{seen.String(): 9},
	}}
	bad := good
	bad.Answered, bad.Sources = 8, map[string]int{source.String(): 8}
	r.called(good)
	require.Equal(t, report{ServiceCalls: 9, ServiceAnswered: 9, ServiceCallsOK: true, ServiceSourceOK: true}, r)
	r.called(bad)
	r.called(good)
	r.followed(70 * time.Millisecond)
	r.followed(30 * time.Millisecond)
	require.Equal(t, report{ServiceCalls: 27, ServiceAnswered: 26, EndpointChanges: 2, EndpointPropagation: 70}, r)
}

func TestIndenterKeepsLinesWhole(t *testing.T) {
	var out bytes.Buffer
	i := &indenter{w: &out}
	for _, part := range []string{"one ", "line\ntwo\nunfinished"} {
		n, err := i.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, "          one line\n          two\n", out.String())
}
