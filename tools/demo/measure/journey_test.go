package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/traffic/steady"
	"github.com/weft-fabric/weft/tools/traffic/stream"
)

func flow(sent, lost uint64, silence time.Duration, socket uint32) FlowReport {
	start := time.Unix(1000, 0)
	return FlowReport{
		Sent:     stream.Sent{Sent: sent, Start: start, End: start.Add(2 * time.Second)},
		Received: stream.Received{Distinct: sent - lost, LongestSilenceMicroseconds: silence.Microseconds(), SocketDropped: socket},
		Lost:     lost,
	}
}

// A stage sums up its flows; what the ends did wrong is not the network's.
func TestStageSumsUpItsFlows(t *testing.T) {
	s := Stage{flow(2000, 3, 40*time.Millisecond, 0), flow(1990, 4, 700*time.Millisecond, 0)}
	require.EqualValues(t, 7, s.Lost())
	require.EqualValues(t, 3990, s.Sent())
	require.Equal(t, 700*time.Millisecond, s.Silence())
	require.InDelta(t, 995, s.LeastRate(), 0.01)
	require.NoError(t, s.Check())
	require.ErrorContains(t, Stage{flow(1900, 0, 0, 0)}.Check(), "sent 1900 packets instead of 1980")
	require.ErrorContains(t, Stage{flow(2000, 1, 0, 1)}.Check(), "socket dropped 1")
}

func TestConnectionsTellWhichBroke(t *testing.T) {
	whole := steady.Report{Sent: 9, Verified: 9, Done: true, LongestSilenceMicroseconds: 20_000}
	reset := steady.Report{Sent: 9, Verified: 5, Done: true, Broken: true, Error: "connection reset by peer", LongestSilenceMicroseconds: 900_000}
	require.NoError(t, Connections{whole, whole}.Check())
	c := Connections{whole, reset}
	require.Equal(t, 1, c.Resets())
	require.EqualValues(t, 14, c.Verified())
	require.Equal(t, 900*time.Millisecond, c.Silence())
	require.ErrorContains(t, c.Check(), "5 of 9 bytes came back: connection reset by peer")
	require.Zero(t, Connections(nil).Silence())
}
