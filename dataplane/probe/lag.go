package probe

import "time"

const (
	// maxLag bounds what late answers add to the timeouts: a dead path is found on
	// a busy machine too.
	maxLag = 200 * time.Millisecond
	// lagMemory is how long they do, less and less.
	lagMemory = time.Minute
	// together is how close to each other the answers of two are late for one
	// reason.
	together = time.Second
)

// lag is how much later than expected answers have come that were counted as
// missed, as when WireGuard here does not get a processor in time. Such an answer
// proves that the timeout was too short (as in the Eifel response, RFC 4015), so
// probes are given longer for a while. All targets of a prober share it, as what
// keeps back the answers of one keeps back those of others: it goes by what two
// clusters or nodes have in common, so that no single one can slow the verdicts
// about the rest. A hub can, as the answers of all behind it pass it: by maxLag.
type lag struct {
	excess time.Duration
	since  time.Time
	last   late
}

// late is an answer that was.
type late struct {
	of     string // the cluster or node that answered
	excess time.Duration
	at     time.Time
}

// learn takes by how much an answer of a cluster or node was late.
func (l *lag) learn(of string, excess time.Duration, now time.Time) {
	other := l.last
	l.last = late{of, excess, now}
	if other.of == of || now.Sub(other.at) > together {
		return
	}
	if shared := min(excess, other.excess, maxLag); shared > l.at(now) {
		l.excess, l.since = shared, now
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
