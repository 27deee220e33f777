package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Numbers 0 to 199 with 3 missing, 70 to 75 missing, 10 twice and 20 after 21.
func TestAccountFindsEveryKindOfFault(t *testing.T) {
	a := newAccount(9)
	now := time.Unix(1000, 0)
	for number := uint64(0); number < 200; number++ {
		now = now.Add(time.Millisecond)
		switch {
		case number == 3, number >= 70 && number <= 75:
			continue
		case number == 20:
			a.add(21, now)
			a.add(20, now)
		case number == 21:
		default:
			a.add(number, now)
		}
		if number == 10 {
			a.add(number, now)
		}
	}
	got := a.summary()
	require.Equal(t, uint32(9), got.Flow)
	require.EqualValues(t, 193, got.Distinct)
	require.EqualValues(t, 1, got.Duplicated)
	require.EqualValues(t, 1, got.Reordered)
	require.EqualValues(t, 199, got.Highest)
	require.EqualValues(t, 7, got.MissingBelowHighest)
	require.Equal(t, []Gap{{3, 3}, {70, 75}}, got.Gaps)
	require.EqualValues(t, 7000, got.LongestSilenceMicroseconds)
	require.Equal(t, time.Unix(1000, 0).Add(77*time.Millisecond), got.LongestSilenceEnd)
}

func TestAccountOfNothing(t *testing.T) {
	got := newAccount(1).summary()
	require.EqualValues(t, -1, got.Highest)
	require.Zero(t, got.MissingBelowHighest)
	require.Empty(t, got.Gaps)
}

func TestAccountBoundsItsGaps(t *testing.T) {
	a := newAccount(1)
	for number := uint64(0); number < 1000; number += 2 {
		a.add(number, time.Unix(0, 0))
	}
	got := a.summary()
	require.Len(t, got.Gaps, maxGaps)
	require.EqualValues(t, 499, got.MissingBelowHighest)
}

func FuzzDecode(f *testing.F) {
	valid := make([]byte, HeaderBytes)
	encode(valid, 5, 77)
	f.Add(valid)
	f.Fuzz(func(t *testing.T, b []byte) {
		flow, number, err := decode(b)
		if err != nil {
			return
		}
		require.Less(t, number, uint64(MaxNumber))
		again := make([]byte, HeaderBytes)
		encode(again, flow, number)
		require.Equal(t, b[:HeaderBytes], again)
	})
}
