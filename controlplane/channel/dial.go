package channel

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// dialLoop keeps trying to have a session with the peer, until ctx ends.
func (p *peer) dialLoop(ctx context.Context) {
	timing := p.manager.options.Timing
	lower := p.manager.options.Self < p.id
	backoff := timing.BackoffMin
	if !lower && !p.pause(ctx, timing.HigherWaits) {
		return
	}
	for round := 0; ctx.Err() == nil; round++ {
		if p.hasSession() {
			select {
			case <-ctx.Done():
				return
			case <-p.ended:
			}
			backoff = timing.BackoffMin
			if !lower && !p.pause(ctx, timing.HigherWaits) {
				return
			}
			continue
		}
		began := time.Now()
		if err := p.dialAll(ctx, round); err != nil {
			p.failed(err)
		}
		if time.Since(began) > timing.BackoffMax {
			backoff = timing.BackoffMin // it was up, or the time was spent already
		}
		if !p.pause(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, timing.BackoffMax)
	}
}

// pause waits, but not longer than until the peer's addresses change. False if
// ctx ended.
func (p *peer) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-p.poked:
	}
	return true
}

func (p *peer) hasSession() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current != nil
}

// dialAll tries one direct route, then at once one through a hub, where there
// are such; from round to round the routes of a kind take turns. It returns why
// there was no session, or nil if there was one.
func (p *peer) dialAll(ctx context.Context, round int) error {
	direct, hubs := p.routes()
	timing := p.manager.options.Timing
	patient := allowance{dial: timing.Attempt, whole: 2 * timing.Attempt}
	switch {
	case len(direct) == 0 && len(hubs) == 0:
		return errors.New("the peer's record names no gateway")
	case len(hubs) == 0:
		return p.dial(ctx, turn(direct, round), patient)
	case len(direct) == 0:
		return p.dial(ctx, turn(hubs, round), patient)
	}
	// A tunnel that is up takes little of this. One that is not must not keep the
	// hub waiting.
	err := p.dial(ctx, turn(direct, round), allowance{dial: timing.Attempt / 2, whole: timing.Attempt})
	if err == nil || ctx.Err() != nil || p.hasSession() {
		return err
	}
	if through := p.dial(ctx, turn(hubs, round), patient); through != nil {
		return fmt.Errorf("directly: %w; through a hub: %w", err, through)
	}
	return nil
}

// routes of the peer by kind, each in order.
func (p *peer) routes() (direct, hubs []Route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.config.Routes {
		if r.Hub.IsValid() {
			hubs = append(hubs, r)
		} else {
			direct = append(direct, r)
		}
	}
	return direct, hubs
}
