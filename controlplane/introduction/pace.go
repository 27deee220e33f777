package introduction

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/turn"
)

const (
	// An introducer may change what it says this often, and in a burst of so many:
	// each change may make and delete ForeignClusters. What it says faster is taken
	// later, the newest only.
	changeEvery = 2 * time.Second
	changeBurst = 20
	// It may make us know clusters this often, and in a burst of as many as it may
	// introduce at once: one that introduces ever others leaves claims behind.
	makeEvery = 30 * time.Second
	makeBurst = channel.MaxIntroductions
	// The status of a connection is written this often, and in a burst of so many:
	// what the providers report makes it differ each time.
	writeEvery = 5 * time.Second
	writeBurst = 30
)

// pace holds back an introducer that changes its mind too often.
type pace struct {
	changes turn.Paced[[]channel.Introduction]
	makes   *rate.Limiter // ForeignClusters
}

func newPace() *pace {
	return &pace{
		changes: turn.NewPaced[[]channel.Introduction](changeEvery, changeBurst),
		makes:   rate.NewLimiter(rate.Every(makeEvery), makeBurst),
	}
}

// take returns what to go by now and, if that is not what was said last, how
// long to wait with it. Nil says nothing: what was said before stands.
func (p *pace) take(said []channel.Introduction, now time.Time) ([]channel.Introduction, time.Duration) {
	if said == nil {
		said = p.changes.Taken()
	}
	return p.changes.Take(said, now)
}

// writing is when the status of a connection was last written, and how often it
// may be.
type writing struct {
	at    time.Time
	limit *rate.Limiter
}
