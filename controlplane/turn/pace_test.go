package turn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	every = 2 * time.Second
	burst = 20
)

var start = time.Unix(1_800_000_000, 0)

// A peer that changes what it says without end is followed now and then, and
// ends with what it said last.
func TestPacedFollowsNowAndThen(t *testing.T) {
	p := NewPaced[int](every, burst)
	now := start
	followed, last := 0, 0
	for said := 1; said <= 600; said++ { // ten a second, one minute
		now = now.Add(100 * time.Millisecond)
		got, wait := p.Take(said, now)
		require.Equal(t, wait > 0, got != said, "who is held back is told when to come again")
		if got != last {
			followed, last = followed+1, got
		}
	}
	require.LessOrEqual(t, followed, 50)
	require.GreaterOrEqual(t, followed, 40, "yet it is followed")
	got, wait := p.Take(600, now.Add(every))
	require.Equal(t, 600, got)
	require.Zero(t, wait)
}

// The burst goes through at once; after it, of all that was said the newest does.
func TestPacedBurst(t *testing.T) {
	p := NewPaced[int](every, burst)
	for said := 1; said <= burst; said++ {
		got, wait := p.Take(said, start)
		require.Equal(t, said, got)
		require.Zero(t, wait)
	}
	for _, said := range []int{50, 51} {
		got, wait := p.Take(said, start)
		require.Equal(t, burst, got)
		require.Equal(t, every, wait)
	}
	require.Equal(t, burst, p.Taken())
	got, wait := p.Take(51, start.Add(every))
	require.Equal(t, 51, got)
	require.Zero(t, wait)
}

// What was taken costs nothing, nor does what is there before the first word;
// what is like it, but not equal, such as an empty list for none, is a change.
func TestPacedCountsChangesOnly(t *testing.T) {
	p := NewPaced[[]int](every, 2)
	for _, said := range [][]int{nil, nil, {}, {}, {1}, {1}} {
		got, wait := p.Take(said, start)
		require.Equal(t, said, got)
		require.Zero(t, wait)
	}
	got, wait := p.Take(nil, start)
	require.Equal(t, []int{1}, got)
	require.Equal(t, every, wait)
}
