package probe

import (
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// The rules of a verdict.
const (
	// missesToDown in a row, with no answer of any age in between, are the
	// verdict Down; the first one starts a burst.
	missesToDown = 5
	// goodToUp in a row lead from Down back to Up. From Unknown one is enough:
	// nothing is known that speaks against it.
	goodToUp = 5
	// lossWindow is the number of probes that loss is told of.
	lossWindow = 100
	// ringSize bounds what is remembered of sent probes. It covers the longest
	// timeout at the pace of a burst.
	ringSize = 128
	// Of every paddedEvery probes of a path, the one at paddedAt is padded: soon
	// after the first answer, not before it.
	paddedEvery, paddedAt = 100, 10
	// largeMissesToTell of padded probes in a row, on a path that is up, mean that
	// large packets do not cross. They are one in a hundred, so chance alone does
	// not lose this many.
	largeMissesToTell = 5
)

// A probe is missed once it is older than the smoothed round-trip time plus
// four times its variance (RFC 6298), within these bounds. An answer that comes
// later still counts as life, so a path whose delay jumps is measured anew and
// not lost.
const (
	firstTimeout  = time.Second
	timeoutMargin = 30 * time.Millisecond
	// maxTimeout is also the age from which an answer says nothing any more:
	// WireGuard holds packets back while it waits for a handshake.
	maxTimeout = 2 * time.Second
)

// pace of a track's probes.
type pace struct {
	interval time.Duration
	burst    time.Duration
}

type outcome uint8

const (
	unsent outcome = iota
	pending
	missed
	answered
)

type sentProbe struct {
	sequence uint32
	at       time.Time
	allowed  time.Duration // until it was missed
	length   int           // in bytes at layer 3
	outcome  outcome
}

func (s *sentProbe) large() bool { return s.length > packetLength }

// track is the history of one target and the verdict that follows from it. It
// does no I/O and knows no clock; times are arguments.
type track struct {
	pace pace
	of   string // the cluster or node that answers
	lag  *lag

	state v1alpha1.PathState
	since time.Time

	ring     [ringSize]sentProbe
	sequence uint32 // of the next probe
	oldest   uint32 // the first that may still be pending
	next     time.Time

	misses int // in a row
	good   int // in a row

	largeMisses int // of padded probes, in a row

	wasUp    bool   // at any time
	lossFrom uint32 // the first probe that can count as lost

	smoothed  time.Duration // 0: no sample
	variance  time.Duration
	jitter    time.Duration
	lastTrip  time.Duration
	hasSample bool
}

// newTrack returns one of a cluster or node, without history. What it learns of late
// answers is for all that share the lag.
func newTrack(p pace, of string, l *lag, now time.Time) *track {
	return &track{pace: p, of: of, lag: l, state: v1alpha1.PathUnknown, since: now, next: now}
}

// setPace changes the pace. A probe that was due far ahead is moved nearer.
func (t *track) setPace(p pace, now time.Time) {
	t.pace = p
	if latest := now.Add(p.interval); t.next.After(latest) {
		t.next = latest
	}
}

// timeout of a probe sent now.
func (t *track) timeout() time.Duration {
	if !t.hasSample {
		return firstTimeout
	}
	return min(t.smoothed+max(4*t.variance, timeoutMargin), maxTimeout)
}

// bursting reports whether a miss has to be confirmed or refuted quickly.
func (t *track) bursting() bool {
	return t.misses > 0 && t.misses < missesToDown && t.state != v1alpha1.PathDown
}

// due reports whether a probe is to be sent.
func (t *track) due(now time.Time) bool { return !now.Before(t.next) }

// send registers a probe sent now and returns its sequence number.
func (t *track) send(now time.Time, length int) uint32 {
	sequence := t.sequence
	slot := &t.ring[sequence%ringSize]
	t.skipDecided()
	if slot.outcome == pending {
		// More are on their way than are remembered: the oldest is lost.
		t.miss(slot, now)
		t.oldest = slot.sequence + 1
	}
	*slot = sentProbe{sequence: sequence, at: now, length: length, outcome: pending}
	t.sequence++
	if t.bursting() {
		t.next = now.Add(t.pace.burst)
	} else {
		t.next = now.Add(t.pace.interval)
	}
	return sequence
}

// wakeup is when the track has something to do next.
func (t *track) wakeup() time.Time {
	at := t.next
	t.skipDecided()
	if t.oldest != t.sequence {
		if expiry := t.expiry(&t.ring[t.oldest%ringSize]); expiry.Before(at) {
			at = expiry
		}
	}
	return at
}

// expiry is when a probe counts as missed.
func (t *track) expiry(slot *sentProbe) time.Time {
	timeout := t.timeout()
	return slot.at.Add(min(timeout+t.lag.at(slot.at.Add(timeout)), maxTimeout))
}

// expire counts the probes that are overdue as missed. It must run only after
// all answers that have arrived were taken. It reports a change of verdict.
func (t *track) expire(now time.Time) bool {
	before := t.state
	for t.skipDecided(); t.oldest != t.sequence; t.skipDecided() {
		slot := &t.ring[t.oldest%ringSize]
		if t.expiry(slot).After(now) {
			break
		}
		t.miss(slot, now)
	}
	return t.state != before
}

// skipDecided moves oldest to the first probe that is still pending.
func (t *track) skipDecided() {
	for t.oldest != t.sequence && t.ring[t.oldest%ringSize].outcome != pending {
		t.oldest++
	}
}

func (t *track) miss(slot *sentProbe, now time.Time) {
	slot.outcome, slot.allowed = missed, t.timeout()
	t.good = 0
	t.misses++
	if slot.large() {
		t.largeMisses++
	}
	switch {
	case t.state == v1alpha1.PathDown:
	case t.misses >= missesToDown:
		t.turn(v1alpha1.PathDown, now)
		// What was measured before says nothing about the path that returns.
		t.hasSample, t.smoothed, t.variance, t.jitter = false, 0, 0, 0
	case t.misses == 1 && t.next.After(now):
		t.next = now
	}
}

// answer takes the answer to a probe. It reports whether the probe is ours and
// was not answered before, and whether the verdict changed or a first
// round-trip time is known.
func (t *track) answer(sequence uint32, now time.Time) (accepted, changed bool) {
	slot := &t.ring[sequence%ringSize]
	if slot.sequence != sequence || (slot.outcome != pending && slot.outcome != missed) {
		return false, false
	}
	trip := now.Sub(slot.at)
	if trip > maxTimeout {
		return false, false
	}
	// What waited longer than a first probe may, waited for a handshake.
	if slot.outcome == missed && !slot.large() && slot.allowed < trip && trip <= firstTimeout {
		t.lag.learn(t.of, trip-slot.allowed, now)
	}
	slot.outcome = answered
	first := !t.hasSample
	if slot.large() {
		// A padded probe is as good as any, but takes longer on a slow path.
		first, t.largeMisses = false, 0
	} else {
		t.sample(trip)
	}
	t.misses = 0
	t.good++
	before := t.state
	if t.state == v1alpha1.PathUnknown || t.state == v1alpha1.PathDown && t.good >= goodToUp {
		if !t.wasUp {
			// What was sent before there was a path to lose it is no loss.
			t.wasUp, t.lossFrom = true, sequence
		}
		t.turn(v1alpha1.PathUp, now)
	}
	return true, first || t.state != before
}

// sent reports whether a probe with this sequence number was sent at this time
// and in this length, and is remembered.
func (t *track) sent(sequence uint32, at time.Time, length int) bool {
	slot := &t.ring[sequence%ringSize]
	return slot.sequence == sequence && slot.outcome != unsent && slot.at.Equal(at) && slot.length == length
}

// largeLost reports whether large packets do not cross a path that small ones
// cross.
func (t *track) largeLost() bool {
	return t.state == v1alpha1.PathUp && t.largeMisses >= largeMissesToTell
}

func (t *track) turn(state v1alpha1.PathState, now time.Time) {
	t.state, t.since = state, now
	t.good, t.largeMisses = 0, 0
}

// sample smooths round-trip time and variance as RFC 6298, section 2, and
// jitter as RFC 3550, section 6.4.1. A path does not become twice as fast: then
// the samples before were of packets that had to wait, and weigh less.
func (t *track) sample(trip time.Duration) {
	trip = max(trip, time.Nanosecond)
	if !t.hasSample {
		t.hasSample = true
		t.smoothed, t.variance, t.jitter = trip, trip/2, 0
	} else {
		weight := time.Duration(8)
		if trip < t.smoothed/2 {
			weight = 2
		}
		t.variance += ((t.smoothed - trip).Abs() - t.variance) / 4
		t.smoothed += (trip - t.smoothed) / weight
		t.jitter += ((trip - t.lastTrip).Abs() - t.jitter) / 16
	}
	t.lastTrip = trip
}

func (t *track) measurement() agent.Measurement {
	return agent.Measurement{
		State:              t.state,
		RTTMicroseconds:    t.smoothed.Microseconds(),
		JitterMicroseconds: t.jitter.Microseconds(),
		LossPermille:       t.lossPermille(),
		Since:              t.since,
	}
}

func (t *track) lossPermille() int32 {
	var decided, lost int32
	for i := uint32(1); i <= min(ringSize, t.sequence-t.lossFrom) && decided < lossWindow; i++ {
		switch t.ring[(t.sequence-i)%ringSize].outcome {
		case missed:
			decided++
			lost++
		case answered:
			decided++
		}
	}
	if decided == 0 {
		return 0
	}
	return lost * 1000 / decided
}
