package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/demo/measure"
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
	} {
		require.IsType(t, float64(0), flat[name], name)
	}
	require.InDelta(t, 20.5, flat["rtt_ms"], 0)
}

func TestVerdictNamesWhatIsNotMet(t *testing.T) {
	d := demo{options: options{nodes: 2, leastRatio: 0.8}}
	d.report = report{PairsTested: 8, PairsOK: 8, SourcesOK: 8, TransfersVerified: 2, Ratio: 0.9}
	require.NoError(t, d.verdict())
	for want, breakIt := range map[string]func(*report){
		"1 of 8 pairs failed":        func(r *report) { r.PairsOK = 7 },
		"seen from a wrong source":   func(r *report) { r.SourcesOK = 7 },
		"6 pairs were tried":         func(r *report) { r.PairsTested, r.PairsOK, r.SourcesOK = 6, 6, 6 },
		"1 of 2 transfers":           func(r *report) { r.TransfersVerified = 1 },
		"throughput is 0.79 of bare": func(r *report) { r.Ratio = 0.79 },
	} {
		broken := d
		breakIt(&broken.report)
		require.ErrorContains(t, broken.verdict(), want)
	}
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
