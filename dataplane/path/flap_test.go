package path

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// follow chooses again and again as an agent does: every 100 ms, as if each
// probe gave cause to, with what see returns.
func follow(from time.Time, turns int, first Choice, see func(turn int, now time.Time) []Path, each func(now time.Time, paths []Path, before, after Choice)) {
	choice := first
	for turn := range turns {
		now := from.Add(time.Duration(turn) * 100 * time.Millisecond)
		paths := see(turn, now)
		next := Choose(Input{Now: now, Self: 1, Clusters: []uint8{cluster}, Gateways: []Gateway{{ID: 1}}, Paths: paths, Previous: choice})
		each(now, paths, choice, next)
		choice = next
	}
}

// Up to four paths of either kind whose round-trip times lie close together, the
// first two often at the very edge of a change, and jitter of less than a tenth of
// the gain that counts, which may last longer than any hold: a path that was left
// is never taken again, so the choice comes to rest. Each case is 200 seconds.
func TestJitterNeverFlaps(t *testing.T) {
	changes := 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		base := 1 + random.Float64()*random.Float64()*200 // milliseconds
		var paths []Path
		for i := range 2 + random.IntN(3) {
			p := hub(uint16(i+1), up)
			p.Direct = random.IntN(2) == 0
			p.Since = now.Add(-time.Hour)
			paths = append(paths, p.rtt(base*(0.7+0.6*random.Float64())))
		}
		if random.IntN(2) == 0 {
			gain := max(paths[0].RTT/gainShare, minGain)
			paths[1].RTT = max(paths[0].RTT-gain/time.Duration(1+random.IntN(2)), time.Microsecond)
		}
		lasts := []int{1, 5, 50}[random.IntN(3)] // turns
		jitter := make([]float64, len(paths))
		left := map[uint32]bool{}
		follow(now, 2000, words(uint32(paths[0].Link), 1), func(turn int, _ time.Time) []Path {
			seen := append([]Path(nil), paths...)
			for i := range seen {
				if turn%lasts == 0 {
					jitter[i] = 0.1 * (random.Float64()*2 - 1)
				}
				seen[i].RTT += time.Duration(jitter[i] * float64(max(seen[i].RTT/gainShare, minGain)))
			}
			return seen
		}, func(at time.Time, _ []Path, before, after Choice) {
			if before.Paths[cluster] != after.Paths[cluster] {
				changes++
				left[before.Paths[cluster]] = true
				require.False(t, left[after.Paths[cluster]], "seed %d returned to link %d after %s: %+v", seed, after.Paths[cluster], at.Sub(now), paths)
			}
		})
	}
	require.Greater(t, changes, 10, "the cases have better paths to find")
}

// Whatever the probes say: a path that is up is left only for one that has been
// up and better for a second, and three seconds after the last change; one that is not up
// never stays in use while another is up, unless its probes have no verdict yet;
// what policy forbids is never in use; and this gateway says that it reaches the
// cluster whenever a path is up.
func TestAnyMeasurements(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 8))
		paths := make([]Path, 1+random.IntN(4))
		for i := range paths {
			paths[i] = hub(uint16(i+1), unknown)
			paths[i].Direct = random.IntN(2) == 0
		}
		wild := func(_ int, now time.Time) []Path {
			for i := range paths {
				p := &paths[i]
				if random.IntN(20) == 0 {
					p.State, p.Since = []v1alpha1.PathState{up, up, down, unknown}[random.IntN(4)], now
				}
				p.Permitted = random.IntN(400) != 0 && (p.Permitted || random.IntN(20) == 0)
				p.Probed = random.IntN(400) != 0 && (p.Probed || random.IntN(20) == 0)
				p.RTT = time.Duration(random.IntN(100)) * time.Millisecond
			}
			return append([]Path(nil), paths...)
		}
		follow(now, 1000, Choice{}, wild, func(now time.Time, seen []Path, before, after Choice) {
			checkChoice(t, now, seen, before, after)
		})
	}
}

func checkChoice(t *testing.T, now time.Time, seen []Path, before, after Choice) {
	t.Helper()
	byLink := map[uint32]*Path{}
	anyUp, anyPermitted := false, false
	for i := range seen {
		p := &seen[i]
		byLink[uint32(p.Link)] = p
		anyUp = anyUp || p.Permitted && p.Probed && p.State == up
		anyPermitted = anyPermitted || p.Permitted
		require.Contains(t, after.Reasons, p.key())
	}
	old, chosen := byLink[before.Paths[cluster]], byLink[after.Paths[cluster]]
	require.Equal(t, anyPermitted, chosen != nil)
	if chosen != nil {
		require.True(t, chosen.Permitted)
		require.True(t, !anyUp || chosen.up() || chosen == old && chosen.silent())
	}
	if anyUp {
		require.True(t, HasReach(after.Reach, cluster))
		require.Equal(t, []uint8{1}, Unpack(after.Choices[cluster]))
	}
	if old == nil || chosen == old {
		return
	}
	require.Equal(t, now, after.Changed[cluster])
	if old.up() {
		require.GreaterOrEqual(t, now.Sub(chosen.Since), settleTime)
		require.GreaterOrEqual(t, now.Sub(before.Changed[cluster]), holdTime)
		require.Equal(t, chosen.Link, before.Contenders[cluster].Link)
		require.GreaterOrEqual(t, now.Sub(before.Contenders[cluster].Since), settleTime)
	}
	require.False(t, old.silent(), "silence changes nothing")
}

// A direct path dies and heals while a hub path is up all the time: away at
// once, back one second after it is up again and not within three of leaving.
// The cluster is said to be reached at every moment.
func TestFailAndReturn(t *testing.T) {
	const dies, heals = 50, 150 // turns of 100 ms
	var moved []time.Duration
	follow(now, 300, words(11, 1), func(turn int, at time.Time) []Path {
		p := direct(11, up).rtt(20)
		p.Since = now.Add(-time.Hour)
		switch {
		case turn >= heals:
			p.Since = now.Add(heals * 100 * time.Millisecond)
		case turn >= dies:
			p.State, p.Since = down, now.Add(dies*100*time.Millisecond)
		}
		other := hub(21, up).rtt(80)
		other.Since = now.Add(-time.Hour)
		return []Path{p, other}
	}, func(at time.Time, _ []Path, before, after Choice) {
		require.True(t, HasReach(after.Reach, cluster))
		require.Equal(t, []uint8{1}, Unpack(after.Choices[cluster]))
		if before.Paths[cluster] != after.Paths[cluster] {
			moved = append(moved, at.Sub(now))
		}
	})
	require.Equal(t, []time.Duration{5 * time.Second, 16 * time.Second}, moved)
}

// Two direct paths that are much better than the hub's, now one a little faster
// and now the other: traffic does not wait for them to agree.
func TestTwoContenders(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	var moved []time.Duration
	follow(now, 600, words(21, 1), func(int, time.Time) []Path {
		jitter := func() float64 { return 20 + random.Float64() }
		return []Path{
			direct(11, up).rtt(jitter()).upFor(time.Hour), direct(12, up).rtt(jitter()).upFor(time.Hour), hub(21, up).rtt(80).upFor(time.Hour),
		}
	}, func(at time.Time, _ []Path, before, after Choice) {
		if before.Paths[cluster] != after.Paths[cluster] {
			moved = append(moved, at.Sub(now))
		}
	})
	require.Equal(t, []time.Duration{time.Second}, moved)
}
