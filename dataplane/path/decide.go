package path

import "time"

// What keeps a choice from flapping.
const (
	// A path is better than another of its kind, and a hub path than a direct one,
	// if its round trip is shorter by more than a fifth and by more than minGain.
	gainShare = 5
	minGain   = 2 * time.Millisecond
	// A hub path that was better is left for a direct one when less than half of
	// that is left of its lead: so jitter at the edge changes nothing.
	lostLead = 2
	// A path that is up is left only for one that has been up, and better, for
	// settleTime, and not before holdTime has passed since the last change.
	settleTime = time.Second
	holdTime   = 3 * time.Second
	// watchTime is how often a path that is better is looked at until then.
	watchTime = settleTime / 4
	// reviewTime is how often round-trip times are compared where several paths are
	// up: no verdict tells that they have drifted apart.
	reviewTime = time.Second
)

// former is what was decided before about the paths to one cluster, and for whom.
type former struct {
	link      uint16
	changed   time.Time
	contender Contender
	// onward: this gateway is a hub for the cluster. What others send through it may
	// not pass a second hub, so it takes a direct path while one is up, however slow.
	onward bool
}

// decision about the paths to one cluster.
type decision struct {
	chosen *Path // nil: there is none
	// contender is better than chosen since some time, but has to last first; nil:
	// none is.
	contender *Path
	since     time.Time
	// again is when to decide anew at the latest; zero: after the next verdict.
	again time.Time
}

// decide chooses among the paths to one cluster.
func decide(now time.Time, paths []Path, before former) decision {
	used, best := permitted(paths, before.link), fastest(paths, before.onward)
	better := func(p, used *Path) bool { return better(p, used, before.onward) }
	switch {
	case used == nil && best == nil:
		return decision{chosen: first(paths)}
	case best == nil, used != nil && used.silent():
		return decision{chosen: used}
	case used == nil || !used.up():
		return decision{chosen: best, again: review(now, paths)}
	case best == used || !better(best, used):
		return decision{chosen: used, again: review(now, paths)}
	}
	since := now
	if still := permitted(paths, before.contender.Link); still != nil && still.up() && better(still, used) && (still == best || !better(best, still)) {
		// Of several that are about as good the same one stays the contender.
		best, since = still, before.contender.Since
	}
	ready := latest(best.Since.Add(settleTime), since.Add(settleTime), before.changed.Add(holdTime))
	if !now.Before(ready) {
		return decision{chosen: best, again: review(now, paths)}
	}
	return decision{chosen: used, contender: best, since: since, again: earliest(ready, now.Add(watchTime))}
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

func earliest(x, y time.Time) time.Time {
	if y.Before(x) {
		return y
	}
	return x
}

// permitted is the path over a link, nil if there is none or traffic may not take
// it (any more).
func permitted(paths []Path, link uint16) *Path {
	for i := range paths {
		if p := &paths[i]; p.Link == link && p.Permitted {
			return p
		}
	}
	return nil
}

// fastest is the best of those that are up, nil if none is; a direct one if there
// is any and the gateway is a hub for the cluster.
func fastest(paths []Path, onward bool) *Path {
	var direct, hub *Path
	for i := range paths {
		p := &paths[i]
		if !p.up() {
			continue
		}
		of := &hub
		if p.Direct {
			of = &direct
		}
		if *of == nil || shorter(p, *of) {
			*of = p
		}
	}
	if direct == nil || !onward && hub != nil && leads(hub, direct, 1) {
		return hub
	}
	return direct
}

// first is what to take while nothing is known: what may yet turn out to be up,
// else anything that policy permits.
func first(paths []Path) *Path {
	var other *Path
	for i := range paths {
		p := &paths[i]
		if p.silent() {
			return p
		}
		if other == nil && p.Permitted {
			other = p
		}
	}
	return other
}

// alternate is the hub path to take if the chosen path fails: the fastest that
// is up, else the first that is not chosen.
func alternate(paths []Path, chosen *Path) *Path {
	var best *Path
	for i := range paths {
		p := &paths[i]
		if p.Direct || p == chosen || !p.Permitted {
			continue
		}
		if best == nil || p.up() && (!best.up() || shorter(p, best)) {
			best = p
		}
	}
	return best
}

// better reports whether to leave the path in use for another; both are up.
func better(p, used *Path, onward bool) bool {
	if p.Direct != used.Direct && onward {
		return p.Direct
	}
	if p.Direct && !used.Direct {
		return !leads(used, p, lostLead)
	}
	return leads(p, used, 1)
}

// leads reports whether the round trip of p is shorter than that of another by
// more than the gain that counts, or a part of it. What is not measured neither
// leads nor trails.
func leads(p, other *Path, part time.Duration) bool {
	gain := max(other.RTT/gainShare, minGain) / part
	return p.RTT > 0 && other.RTT-p.RTT > gain
}

// shorter reports whether the round trip of p is known to be shorter.
func shorter(p, other *Path) bool {
	return p.RTT > 0 && (other.RTT == 0 || p.RTT < other.RTT)
}

// review is when to compare round-trip times again: never where there is no
// choice.
func review(now time.Time, paths []Path) time.Time {
	up := 0
	for i := range paths {
		if paths[i].up() {
			up++
		}
	}
	if up < 2 {
		return time.Time{}
	}
	return now.Add(reviewTime)
}
