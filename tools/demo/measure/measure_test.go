package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/stream"
)

func TestMedian(t *testing.T) {
	require.InDelta(t, 3.0, Median([]float64{9, 1, 3, 2, 8}), 0)
	require.Zero(t, Median[float64](nil))
}

// A report says when the first of the missing packets was sent, so that it can
// be held against the time of a disturbance.
func TestFlowReportTellsWhenPacketsWereLost(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := FlowReport{
		Pair:     Pair{From: testbed.Host{Node: "a1", Gateway: true}, To: testbed.Host{Node: "b2"}},
		Sent:     stream.Sent{Sent: 30_000, Start: start, End: start.Add(30 * time.Second)},
		Received: stream.Received{Distinct: 29_997, Gaps: []stream.Gap{{From: 2500, To: 2502}}},
		Lost:     3,
	}
	require.Contains(t, r.String(), "a1 (gateway) -> b2: sent 30000 in 30.0 s, lost 3")
	require.Contains(t, r.String(), "missing 2500 to 2502, sent about 03:04:07.500")
}

func TestFlowNumbersDiffer(t *testing.T) {
	now := time.Now()
	require.NotEqual(t, flowNumber(now, 0), flowNumber(now, 1))
	require.NotEqual(t, flowNumber(now, 0), flowNumber(now.Add(time.Nanosecond), 0))
}
