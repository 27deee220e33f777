package measure

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/control"
	"github.com/weft-fabric/weft/tools/traffic/stream"
)

const (
	// Rate of every flow, in packets a second.
	Rate = 1000
	// longest a flow can run if nobody stops it.
	longest = 10 * time.Minute
	// drain is how long packets may still be on their way after the last.
	drain = 3 * time.Second
)

// FlowReport is what became of one flow.
type FlowReport struct {
	Pair     Pair
	Sent     stream.Sent
	Received stream.Received
	// Lost packets: sent and not received. Those that the receiver's socket
	// dropped are among them and reported in Received.SocketDropped.
	Lost uint64
}

func (r FlowReport) String() string {
	text := fmt.Sprintf("%s -> %s: sent %d in %.1f s, lost %d, duplicated %d, reordered %d, longest silence %.1f ms, sender at most %.1f ms late",
		r.Pair.From, r.Pair.To, r.Sent.Sent, r.Sent.End.Sub(r.Sent.Start).Seconds(), r.Lost, r.Received.Duplicated, r.Received.Reordered,
		float64(r.Received.LongestSilenceMicroseconds)/1000, float64(r.Sent.LatestMicroseconds)/1000)
	if r.Received.SocketDropped > 0 {
		text += fmt.Sprintf(", %d dropped by the receiver's socket", r.Received.SocketDropped)
	}
	if r.Sent.Errors > 0 {
		text += fmt.Sprintf(", %d send errors (%s)", r.Sent.Errors, r.Sent.LastError)
	}
	for _, gap := range r.Received.Gaps {
		at := r.Sent.Start.Add(time.Duration(gap.From) * time.Second / Rate)
		text += fmt.Sprintf("\n    missing %d to %d, sent about %s", gap.From, gap.To, at.Format("15:04:05.000"))
	}
	return text
}

// Flows are numbered packets on their way.
type Flows struct {
	pairs   []Pair
	numbers []uint32
	start   time.Time
}

// StartFlows sends Rate packets a second over each pair until Finish, and
// returns once packets of every flow have arrived.
func StartFlows(ctx context.Context, pairs []Pair) (*Flows, error) {
	f := &Flows{pairs: pairs, start: time.Now()}
	for i, pair := range pairs {
		number := flowNumber(f.start, i)
		f.numbers = append(f.numbers, number)
		_, err := testbed.Call[stream.Sent](ctx, pair.From, control.PathSend, stream.SendRequest{
			Flow: number, Target: testbed.Port(pair.Target, control.StreamOffset),
			PacketsPerSecond: Rate, DurationMilliseconds: int(longest.Milliseconds()),
		})
		if err != nil {
			return nil, fmt.Errorf("start the flow %s -> %s: %w", pair.From, pair.To, err)
		}
	}
	for i, pair := range pairs {
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
			got, err := testbed.Call[stream.Received](ctx, pair.To, control.PathReceived, control.Flow{Flow: f.numbers[i]})
			return got.Distinct > 0, err
		})
		if err != nil {
			return nil, fmt.Errorf("wait for the first packet of %s -> %s: %w", pair.From, pair.To, err)
		}
	}
	return f, nil
}

// flowNumber tells the flows of a run from those of any other.
func flowNumber(start time.Time, index int) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d/%d", start.UnixNano(), index)
	return h.Sum32()
}

// Running says how long the flows have been running.
func (f *Flows) Running() time.Duration { return time.Since(f.start) }

// Finish stops the senders, waits for what is on its way, and counts.
func (f *Flows) Finish(ctx context.Context) ([]FlowReport, error) {
	reports := make([]FlowReport, len(f.pairs))
	for i, pair := range f.pairs {
		sent, err := testbed.Call[stream.Sent](ctx, pair.From, control.PathStop, control.Flow{Flow: f.numbers[i]})
		if err != nil {
			return nil, fmt.Errorf("stop the flow %s -> %s: %w", pair.From, pair.To, err)
		}
		reports[i] = FlowReport{Pair: pair, Sent: sent}
	}
	for i, pair := range f.pairs {
		r := &reports[i]
		var err error
		if r.Received, err = drained(ctx, pair, f.numbers[i], r.Sent.Sent); err != nil {
			return nil, fmt.Errorf("count the flow %s -> %s: %w", pair.From, pair.To, err)
		}
		r.Lost = r.Sent.Sent - r.Received.Distinct
		if _, err := testbed.Call[control.Flow](ctx, pair.To, control.PathForget, control.Flow{Flow: f.numbers[i]}); err != nil {
			return nil, fmt.Errorf("forget the flow %s -> %s: %w", pair.From, pair.To, err)
		}
	}
	return reports, nil
}

// drained counts a flow once all of it has arrived, or what has arrived when
// nothing can be on its way any more.
func drained(ctx context.Context, pair Pair, number uint32, sent uint64) (stream.Received, error) {
	for end := time.Now().Add(drain); ; {
		last := time.Now().After(end)
		got, err := testbed.Call[stream.Received](ctx, pair.To, control.PathReceived, control.Flow{Flow: number})
		if err != nil || got.Distinct == sent || last {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Describe prints one line a flow.
func Describe(reports []FlowReport) string {
	lines := make([]string, len(reports))
	for i, r := range reports {
		lines[i] = r.String()
	}
	return strings.Join(lines, "\n")
}
