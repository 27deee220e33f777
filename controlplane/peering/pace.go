package peering

import (
	"reflect"
	"time"

	"golang.org/x/time/rate"

	"github.com/weft-fabric/weft/controlplane/channel"
)

const (
	// A peer may change what it says this often, and in a burst of so many: each
	// change may cost claims, a new generation of its Neighbor, and work on every
	// node. What it says faster is taken later, the newest only.
	changeEvery = 2 * time.Second
	changeBurst = 20
	// The status of a ForeignCluster is written this often, and in a burst of so
	// many: a peer that comes and goes makes it differ each time.
	writeEvery = time.Second
	writeBurst = 30
	// A hub may make us know clusters this often, and in a burst of as many as it
	// may tell at once: each leaves claims behind.
	makeEvery = 30 * time.Second
	makeBurst = channel.MaxReachables
)

// pace holds back what a peer provokes too often.
type pace struct {
	changes, writes, makes *rate.Limiter
	taken                  channel.Snapshot
}

// take returns what to go by now and, if that is not what the peer said last,
// how long to wait with it.
func (p *pace) take(said channel.Snapshot, now time.Time) (channel.Snapshot, time.Duration) {
	if reflect.DeepEqual(said, p.taken) {
		return said, 0
	}
	if p.changes == nil {
		p.changes = rate.NewLimiter(rate.Every(changeEvery), changeBurst)
	}
	if !p.changes.AllowN(now, 1) {
		return p.taken, changeEvery
	}
	p.taken = said
	return said, 0
}

// write reports whether a status may be written now.
func (p *pace) write(now time.Time) bool {
	if p.writes == nil {
		p.writes = rate.NewLimiter(rate.Every(writeEvery), writeBurst)
	}
	return p.writes.AllowN(now, 1)
}

// make reports whether an object may be made for the peer now.
func (p *pace) make(now time.Time) bool {
	if p.makes == nil {
		p.makes = rate.NewLimiter(rate.Every(makeEvery), makeBurst)
	}
	return p.makes.AllowN(now, 1)
}
