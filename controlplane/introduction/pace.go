package introduction

import (
	"reflect"
	"time"

	"golang.org/x/time/rate"

	"github.com/weft-fabric/weft/controlplane/channel"
)

const (
	// An introducer may change what it says this often, and in a burst of so many:
	// each change may make and delete ForeignClusters. What it says faster is taken
	// later, the newest only.
	changeEvery = 2 * time.Second
	changeBurst = 20
)

// pace holds back an introducer that changes its mind too often.
type pace struct {
	changes *rate.Limiter
	taken   []channel.Introduction
}

// take returns what to go by now and, if that is not what was said last, how
// long to wait with it.
func (p *pace) take(said []channel.Introduction, now time.Time) ([]channel.Introduction, time.Duration) {
	if said == nil || p.taken != nil && reflect.DeepEqual(said, p.taken) {
		return p.taken, 0
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
