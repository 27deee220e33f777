package wan

import (
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// far notes what arrives, and when.
type far struct {
	mu      sync.Mutex
	packets [][]byte
	times   []time.Duration
	block   chan struct{} // if set, Write waits for it
}

func (f *far) Write(p []byte) (int, error) {
	if f.block != nil {
		<-f.block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.packets = append(f.packets, p)
	f.times = append(f.times, monotonic())
	return len(p), nil
}

func (f *far) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.packets)
}

func running(t *testing.T, l *Line) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run()
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
}

func TestPacketsArriveInOrderAfterTheDelay(t *testing.T) {
	const delay, count = 10 * time.Millisecond, 200
	out := &far{}
	line := NewLine(out, delay, DefaultQueueBytes)
	running(t, line)
	var sent []time.Duration
	for i := range count {
		sent = append(sent, monotonic())
		line.Send([]byte{byte(i)})
		sleepUntil(monotonic() + 500*time.Microsecond)
	}
	require.Eventually(t, func() bool { return out.count() == count }, 5*time.Second, time.Millisecond)
	errors := make([]time.Duration, count)
	for i := range count {
		require.Equal(t, byte(i), out.packets[i][0])
		errors[i] = out.times[i] - sent[i] - delay
		require.GreaterOrEqual(t, errors[i], time.Duration(0), "never early")
	}
	// The median, because a busy machine may take the processor away.
	sort.Slice(errors, func(i, j int) bool { return errors[i] < errors[j] })
	require.Less(t, errors[count/2], time.Millisecond)
	require.Equal(t, Stats{Delivered: count}, line.Stats())
}

func TestFullLineDropsTheNewest(t *testing.T) {
	out := &far{block: make(chan struct{})}
	line := NewLine(out, 0, 1000)
	running(t, line)
	for i := range 15 {
		line.Send(append([]byte{byte(i)}, make([]byte, 99)...))
	}
	require.Equal(t, uint64(5), line.Stats().Dropped, "what is being written still counts as under way")
	close(out.block)
	require.Eventually(t, func() bool { return out.count() == 10 }, 5*time.Second, time.Millisecond)
	require.Equal(t, byte(0), out.packets[0][0])
	require.Equal(t, byte(9), out.packets[9][0])
	line.Send([]byte{42})
	require.Eventually(t, func() bool { return out.count() == 11 }, 5*time.Second, time.Millisecond, "there is room again")
}

func TestRingKeepsOrderWhileItGrowsAndWraps(t *testing.T) {
	var r ring
	next, want := 0, 0
	for round := range 50 {
		for range 7 + round {
			r.push(packet{due: time.Duration(next)})
			next++
		}
		for range 6 + round {
			require.Equal(t, time.Duration(want), r.front().due)
			r.pop()
			want++
		}
	}
	require.Equal(t, next-want, r.len())
}
