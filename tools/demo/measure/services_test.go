package measure

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/calls"
	"github.com/weft-fabric/weft/tools/traffic/lookup"
)

// All is well only if all calls were answered, by each backend and nobody else,
// who saw the caller's own address and no other.
func TestCallReport(t *testing.T) {
	good := func() CallReport {
		return CallReport{
			Caller:   Caller{Host: testbed.Host{Node: "a2"}, Source: netip.MustParseAddr("100.71.0.9")},
			Backends: []netip.Addr{netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("10.244.0.7")},
			Result: calls.Result{
				Calls: 100, Answered: 100, Servers: map[string]int{"10.244.0.7": 60, "10.244.1.5": 40},
				Sources: map[string]int{"100.71.0.9": 100},
			},
		}
	}
	require.True(t, good().OK())
	require.True(t, good().SourceOK())
	require.Contains(t, good().String(), "a2: 100 of 100 connections answered")
	require.Contains(t, good().String(), "by 10.244.0.7 (60), 10.244.1.5 (40); seen as 100.71.0.9 (100)")
	for name, breakIt := range map[string]func(*CallReport){
		"one unanswered":    func(r *CallReport) { r.Answered = 99 },
		"no calls":          func(r *CallReport) { r.Calls, r.Answered = 0, 0 },
		"an unused backend": func(r *CallReport) { r.Servers = map[string]int{"10.244.0.7": 100} },
		"a stranger":        func(r *CallReport) { r.Servers["10.244.9.9"] = 1 },
	} {
		r := good()
		breakIt(&r)
		require.False(t, r.OK(), name)
	}
	leaving := good()
	leaving.Servers["10.244.9.9"], leaving.Leaving = 1, []netip.Addr{netip.MustParseAddr("10.244.9.9")}
	require.True(t, leaving.OK())
	for name, sources := range map[string]map[string]int{
		"another":    {"10.244.0.1": 100},
		"one of two": {"100.71.0.9": 99, "10.244.0.1": 1},
		"none":       {},
	} {
		r := good()
		r.Sources = sources
		require.False(t, r.SourceOK(), name)
	}
	require.Contains(t, CallReport{}.String(), "by nobody")

	sum := CallReport{}
	sum.Add(good())
	sum.Add(good())
	require.True(t, sum.OK() && sum.SourceOK())
	require.Equal(t, 200, sum.Answered)
	require.Equal(t, 80, sum.Servers["10.244.1.5"])
}

func TestLookedUpJudged(t *testing.T) {
	want := netip.MustParseAddr("10.96.0.1")
	answer := func(code string, records ...string) LookedUp {
		return LookedUp{Result: lookup.Result{Code: code, Records: records}}
	}
	right := answer("NOERROR", "10.96.0.1")
	require.True(t, right.Resolved(want))
	require.False(t, right.Failed())
	for name, wrong := range map[string]LookedUp{
		"other": answer("NOERROR", "10.96.0.2"), "more": answer("NOERROR", "10.96.0.1", "10.96.0.2"), "none": answer("NOERROR"), "no such name": answer("NXDOMAIN"),
	} {
		require.False(t, wrong.Resolved(want), name)
		require.False(t, wrong.Failed(), name)
	}
	for name, failed := range map[string]LookedUp{"told so": answer("SERVFAIL"), "not answered": {Err: errors.New("timeout")}} {
		require.False(t, failed.Resolved(want), name)
		require.True(t, failed.Failed(), name)
	}
}
