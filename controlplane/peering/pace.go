package peering

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/turn"
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
	changes turn.Paced[channel.Snapshot]
	// Writes of the status, and objects that are made for the peer.
	writes, makes *rate.Limiter
}

func newPace() pace {
	return pace{
		changes: turn.NewPaced[channel.Snapshot](changeEvery, changeBurst),
		writes:  rate.NewLimiter(rate.Every(writeEvery), writeBurst),
		makes:   rate.NewLimiter(rate.Every(makeEvery), makeBurst),
	}
}
