package probe

import "time"

const (
	// maxLag bounds what late answers add to the timeouts: a dead path is found on
	// a busy machine too.
	maxLag = 200 * time.Millisecond
	// lagMemory is how long they do, less and less.
	lagMemory = time.Minute
)

// lag is how much later than expected answers have come that were counted as
// missed, as when WireGuard, at either end, does not get a processor in time. Such
// an answer proves that the timeout was too short (as in the Eifel response, RFC
// 4015), so probes are given longer for a while. What delays the answers of one
// path delays those of others: all targets of a prober share it.
type lag struct {
	excess time.Duration
	since  time.Time
}

// learn takes by how much an answer was late.
func (l *lag) learn(excess time.Duration, now time.Time) {
	if excess = min(excess, maxLag); excess > l.at(now) {
		l.excess, l.since = excess, now
	}
}

// at is what to add to a timeout at a time.
func (l *lag) at(now time.Time) time.Duration {
	left := lagMemory - now.Sub(l.since)
	if left <= 0 || l.excess <= 0 {
		return 0
	}
	return time.Duration(float64(l.excess) * min(1, left.Seconds()/lagMemory.Seconds()))
}
