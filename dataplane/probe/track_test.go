package probe

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// path simulates a path for one track, in time of its own.
type path struct {
	*track
	now     time.Time
	arrives map[uint32]time.Time
	// delay of the next answer; negative: it is lost.
	delay func() time.Duration
	// length of the next probe.
	length func() int
}

func newPath(delay func() time.Duration) *path {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &path{
		track:   newTrack(pace{defaultInterval, defaultBurstInterval}, "b", new(lag), start),
		now:     start,
		arrives: map[uint32]time.Time{},
		delay:   delay,
		length:  func() int { return packetLength },
	}
}

// run the simulation until the condition holds or the time is over; it returns
// the time that passed.
func (p *path) run(limit time.Duration, until func() bool) time.Duration {
	start := p.now
	for p.now.Sub(start) < limit && !until() {
		for _, sequence := range slices.Sorted(maps.Keys(p.arrives)) {
			if !p.arrives[sequence].After(p.now) {
				p.answer(sequence, p.now)
				delete(p.arrives, sequence)
			}
		}
		p.expire(p.now)
		if p.due(p.now) {
			sequence := p.send(p.now, p.length())
			if d := p.delay(); d >= 0 {
				p.arrives[sequence] = p.now.Add(d)
			}
		}
		p.now = p.now.Add(time.Millisecond)
	}
	return p.now.Sub(start)
}

func constant(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func never() bool { return false }

func (p *path) is(s v1alpha1.PathState) func() bool { return func() bool { return p.state == s } }

func TestFirstAnswerIsUp(t *testing.T) {
	p := newPath(constant(20 * time.Millisecond))
	require.Equal(t, v1alpha1.PathUnknown, p.state)
	took := p.run(time.Second, p.is(v1alpha1.PathUp))
	require.LessOrEqual(t, took, 22*time.Millisecond)
	p.run(5*time.Second, never)
	require.InDelta(t, 20_000, p.measurement().RTTMicroseconds, 100)
	require.Zero(t, p.measurement().LossPermille)
}

// A path is cut at any time between two probes, with what is on its way: the
// verdict takes at most 300 ms and a round trip.
func TestSilenceIsDownWithinTheBudget(t *testing.T) {
	for _, trip := range []time.Duration{1, 20, 40, 80, 120, 200, 300} {
		trip *= time.Millisecond
		var worst time.Duration
		for phase := time.Duration(0); phase < 100; phase += 7 {
			p := newPath(constant(trip))
			p.run(10*time.Second+phase*time.Millisecond, never)
			require.Equal(t, v1alpha1.PathUp, p.state)
			p.delay = constant(-1)
			clear(p.arrives)
			worst = max(worst, p.run(5*time.Second, p.is(v1alpha1.PathDown)))
			require.Zero(t, p.measurement().RTTMicroseconds, "a dead path has no round-trip time")
		}
		t.Logf("round trip %s: %s at worst", trip, worst)
		require.LessOrEqual(t, worst, 300*time.Millisecond+trip, "round trip %s", trip)
	}
}

func TestDownNeedsSeveralGoodAnswers(t *testing.T) {
	p := newPath(constant(-1))
	p.run(5*time.Second, p.is(v1alpha1.PathDown))
	require.Equal(t, v1alpha1.PathDown, p.state)
	p.delay = constant(5 * time.Millisecond)
	p.run(5*time.Second, func() bool { return p.good == goodToUp-1 })
	require.Equal(t, v1alpha1.PathDown, p.state)
	p.run(5*time.Second, p.is(v1alpha1.PathUp))
	require.Equal(t, v1alpha1.PathUp, p.state)
}

// A path that loses one probe in twenty, one with a round trip of half a
// second, and one that reorders, each stay up for ten minutes.
func TestVerdictIsStableOnBadPaths(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, delay := range map[string]func() time.Duration{
		"loss": func() time.Duration {
			if random.IntN(20) == 0 {
				return -1
			}
			return 30 * time.Millisecond
		},
		"distance":   constant(500 * time.Millisecond),
		"reordering": func() time.Duration { return 20*time.Millisecond + time.Duration(random.IntN(60))*time.Millisecond },
	} {
		p := newPath(delay)
		p.run(2*time.Second, p.is(v1alpha1.PathUp))
		since := p.since
		p.run(10*time.Minute, never)
		require.Equal(t, v1alpha1.PathUp, p.state, name)
		require.Equal(t, since, p.since, name)
		if name == "loss" {
			require.InDelta(t, 50, p.lossPermille(), 80)
		}
	}
}

// Packets of full size get lost, small ones do not: the path is up, its loss is
// what it is, and it is said that large packets do not cross.
func TestLargeProbesLost(t *testing.T) {
	p := newPath(constant(20 * time.Millisecond))
	cross, fullSize := true, 0
	p.length = func() int {
		if p.sequence%paddedEvery == paddedAt {
			fullSize++
			return 1440
		}
		return packetLength
	}
	p.delay = func() time.Duration {
		if !cross && p.ring[(p.sequence-1)%ringSize].large() {
			return -1
		}
		return 20 * time.Millisecond
	}
	p.run(time.Minute, never)
	require.False(t, p.largeLost())
	require.Equal(t, 6, fullSize, "one each ten seconds")

	since := p.since
	cross = false
	took := p.run(2*time.Minute, p.largeLost)
	require.True(t, p.largeLost())
	require.Greater(t, took, 40*time.Second, "one lost probe tells nothing")
	require.Equal(t, v1alpha1.PathUp, p.state)
	require.Equal(t, since, p.since, "the verdict never changed")
	require.InDelta(t, 10, p.lossPermille(), 10, "a lost padded probe counts as any other")

	cross = true
	took = p.run(2*time.Minute, func() bool { return !p.largeLost() })
	require.Less(t, took, 15*time.Second)

	cross = false
	p.run(2*time.Minute, p.largeLost)
	p.delay = constant(-1)
	clear(p.arrives)
	p.run(time.Minute, p.is(v1alpha1.PathDown))
	require.False(t, p.largeLost(), "nothing crosses a path that is down")
}

// A full-size probe takes longer on a slow path; what is told is the trip of
// small ones, and the longer one is no miss.
func TestLargeProbesDoNotMoveTheRoundTripTime(t *testing.T) {
	p := newPath(nil)
	p.length = func() int {
		if p.sequence%paddedEvery == paddedAt {
			return 1440
		}
		return packetLength
	}
	p.delay = func() time.Duration {
		if p.ring[(p.sequence-1)%ringSize].large() {
			return 45 * time.Millisecond
		}
		return 20 * time.Millisecond
	}
	p.run(time.Minute, func() bool {
		require.Contains(t, []int64{0, 20_000}, p.measurement().RTTMicroseconds)
		return false
	})
	require.Equal(t, v1alpha1.PathUp, p.state)
	require.Zero(t, p.lossPermille())
}

// The delay jumps from 1 ms to 100 ms, as behind a full queue: late answers
// are life.
func TestLateAnswersAreLife(t *testing.T) {
	p := newPath(constant(time.Millisecond))
	p.run(5*time.Second, never)
	since := p.since
	p.delay = constant(100 * time.Millisecond)
	p.run(20*time.Second, never)
	require.Equal(t, v1alpha1.PathUp, p.state)
	require.Equal(t, since, p.since)
	require.InDelta(t, 100_000, p.measurement().RTTMicroseconds, 2_000)
	require.Zero(t, p.lossPermille(), "late is not lost")
}

// A tunnel that comes up after a handshake releases what it held back: the old
// answers say neither that the path is up nor how long it is.
func TestHeldBackAnswersDoNotCount(t *testing.T) {
	p := newPath(constant(-1))
	p.run(5*time.Second, never)
	require.Equal(t, v1alpha1.PathDown, p.state)
	released := p.now
	p.delay = constant(10 * time.Millisecond)
	for sequence := range p.sequence {
		p.arrives[sequence] = released
	}
	p.run(2*time.Second, never)
	require.Equal(t, v1alpha1.PathUp, p.state)
	require.InDelta(t, 10_000, p.measurement().RTTMicroseconds, 1_000)
}

func TestAnswerCountsOnce(t *testing.T) {
	p := newPath(constant(-1))
	sequence := p.send(p.now, packetLength)
	accepted, changed := p.answer(sequence, p.now.Add(time.Millisecond))
	require.True(t, accepted)
	require.True(t, changed)
	accepted, _ = p.answer(sequence, p.now.Add(2*time.Millisecond))
	require.False(t, accepted, "a duplicate")
	accepted, _ = p.answer(sequence+1, p.now)
	require.False(t, accepted, "never sent")
	accepted, _ = p.answer(sequence+ringSize, p.now)
	require.False(t, accepted, "the same slot, another probe")
}

func TestPaceFallsToTheBudget(t *testing.T) {
	targets := map[key]*measured{}
	for i := range 100 {
		targets[key{device: string(rune('a' + i))}] = &measured{path: &PathTarget{}}
	}
	o := Options{Budget: 500}.withDefaults()
	require.InDelta(t, 2.0, stretchFor(targets, o), 0.001, "1,000 a second wanted, 500 allowed")
	require.InDelta(t, 1.0, stretchFor(targets, Options{}.withDefaults()), 0.001)
}

// What traffic would not take next is probed once a second, paths and nodes
// alike.
func TestPaceOfSlowTargets(t *testing.T) {
	o := Options{}.withDefaults()
	for name, c := range map[string]struct {
		target measured
		want   time.Duration
	}{
		"path":      {measured{path: &PathTarget{}}, 100 * time.Millisecond},
		"slow path": {measured{path: &PathTarget{Slow: true}}, time.Second},
		"node":      {measured{node: &NodeTarget{}}, 100 * time.Millisecond},
		"slow node": {measured{node: &NodeTarget{Slow: true}}, time.Second},
	} {
		require.Equal(t, pace{c.want, 20 * time.Millisecond}, paceOf(&c.target, o, 1), name)
	}
}

// A path that has to be watched closely from now on does not wait for the probe
// that was due at the old pace.
func TestFasterPaceActsAtOnce(t *testing.T) {
	p := newPath(constant(20 * time.Millisecond))
	p.setPace(pace{time.Second, defaultBurstInterval}, p.now)
	p.run(5*time.Second, never)
	p.setPace(pace{defaultInterval, defaultBurstInterval}, p.now)
	sequence := p.sequence
	p.run(100*time.Millisecond, func() bool { return p.sequence > sequence+1 })
	require.Greater(t, p.sequence, sequence)
}

// Answers that come late on a busy machine, now and then, those of another cluster
// too, teach the timeouts: the verdict falls once, for what nobody could know, and
// not again. A path that dies then is still found, and a minute later as quickly as
// ever.
func TestLateAnswersTeach(t *testing.T) {
	const trip, stall = 20 * time.Millisecond, 280 * time.Millisecond
	p := newPath(constant(trip))
	p.run(10*time.Second, never)
	downs := 0
	for range 5 {
		held := p.now.Add(stall) // all that is answered within comes at its end
		p.lag.learn("c", stall, held)
		p.delay = func() time.Duration { return max(trip, held.Add(trip).Sub(p.now)) }
		if p.run(2*time.Second, p.is(v1alpha1.PathDown)); p.state == v1alpha1.PathDown {
			downs++
		}
		p.run(5*time.Second, never)
		require.Equal(t, v1alpha1.PathUp, p.state)
	}
	require.Equal(t, 1, downs)

	dead := func() time.Duration {
		p.delay = constant(-1)
		clear(p.arrives)
		took := p.run(5*time.Second, p.is(v1alpha1.PathDown))
		p.delay = constant(trip)
		p.run(time.Second, p.is(v1alpha1.PathUp))
		return took
	}
	require.Less(t, dead(), 550*time.Millisecond)
	p.run(lagMemory, never)
	require.Less(t, dead(), 320*time.Millisecond)
}

// A cluster that answers late, alone, slows no verdict, and neither do packets that
// take long because they are large.
func TestLagOfOneAloneTeachesNothing(t *testing.T) {
	p := newPath(constant(20 * time.Millisecond))
	p.run(10*time.Second, never)
	for range 10 {
		p.delay = constant(250 * time.Millisecond)
		p.run(100*time.Millisecond, never)
		p.delay = constant(20 * time.Millisecond)
		p.run(2*time.Second, never)
		require.Zero(t, p.lag.at(p.now))
	}
	p.lag.learn("c", maxLag, p.now.Add(time.Second))
	p.length = func() int { return 1400 }
	p.delay = constant(250 * time.Millisecond)
	p.run(1500*time.Millisecond, never)
	require.Zero(t, p.lag.at(p.now))
}

// What waits for WireGuard's handshake says nothing about the machine.
func TestHandshakeIsNoLag(t *testing.T) {
	p := newPath(constant(firstTimeout + 500*time.Millisecond))
	p.run(3*time.Second, never)
	require.Equal(t, v1alpha1.PathUp, p.state)
	require.Zero(t, p.lag.at(p.now))
}

func TestProbesBeforeThePathAreNoLoss(t *testing.T) {
	for _, before := range []time.Duration{950 * time.Millisecond, 4 * time.Second} {
		p := newPath(constant(-1))
		p.run(before, never)
		require.NotZero(t, p.sequence)
		p.delay = constant(20 * time.Millisecond)
		p.run(5*time.Second, never)
		require.Equal(t, v1alpha1.PathUp, p.state)
		require.Zero(t, p.measurement().LossPermille, "after %s", before)
		p.delay = constant(-1)
		p.run(200*time.Millisecond, never)
		require.NotZero(t, p.measurement().LossPermille, "later losses count")
	}
}
