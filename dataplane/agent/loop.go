package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/node"
	"github.com/weft-fabric/weft/dataplane/plan"
)

const (
	maintainInterval = 2 * time.Second
	resyncInterval   = 30 * time.Second
	// factsInterval is how long the node's facts are taken to hold: reading them
	// costs a dump of all routes.
	factsInterval = 10 * time.Second
	// settleTime gathers a burst of changes into one plan.
	settleTime             = 10 * time.Millisecond
	firstRetry, worstRetry = time.Second, 30 * time.Second
)

var errNotSynced = errors.New("waiting for the first complete reading of the cluster's objects; what an earlier agent applied stands")
var errNoFabricConfig = errors.New("this cluster has no FabricConfig, or it is being deleted; `weftctl install` makes it")

// state is what the loop remembers between two turns.
type state struct {
	facts   node.Facts
	factsAt time.Time
	// applied is the last plan that was applied without an error, nil if another
	// try is due.
	applied *plan.Plan
	report  apply.Report
	// tornDown is why all of Weft was removed, empty if it was not.
	tornDown string
	retry    time.Duration
	// Last texts that were logged, so that each is logged once.
	lastAlarm, lastNotice, lastMaintenance string
}

// followObjects plans and applies after every change, after the kernel's state
// was changed by others, and from time to time.
func (a *agent) followObjects(ctx context.Context) error {
	drift := a.executor.Watch(ctx)
	maintain, resync, facts := time.NewTicker(maintainInterval), time.NewTicker(resyncInterval), time.NewTicker(factsInterval)
	retry := time.NewTimer(0)
	defer maintain.Stop()
	defer resync.Stop()
	defer facts.Stop()
	defer retry.Stop()
	s := &state{}
	for {
		force := true // apply even an unchanged plan
		select {
		case <-ctx.Done():
			return nil
		case <-a.source.Changed():
			force = false
			sleep(ctx, settleTime)
			drain(a.source.Changed())
		case <-drift:
		case <-retry.C:
		case <-resync.C:
		case <-facts.C:
			force, s.factsAt = false, time.Time{}
		case <-maintain.C:
			a.maintain(ctx, s)
			continue
		}
		if err := a.sync(ctx, s, force); err != nil && ctx.Err() == nil {
			s.retry = min(max(2*s.retry, firstRetry), worstRetry)
			retry.Reset(s.retry)
			a.alarm(s, err)
		} else {
			s.retry, s.lastAlarm = 0, ""
		}
	}
}

// alarm logs an error once until it changes.
func (a *agent) alarm(s *state, err error) {
	if text := err.Error(); text != s.lastAlarm {
		s.lastAlarm = text
		a.log.Error("the node is not as planned, trying again", "error", err)
	}
}

// notice logs what was refused or could not be done once until it changes.
func (a *agent) notice(s *state, problems []plan.Problem) {
	text := strings.Join(sentences(problems, s.report.Warnings), "; ")
	if text == s.lastNotice {
		return
	}
	if s.lastNotice = text; text != "" {
		a.log.Warn("some of the input has no effect", "problems", text)
	}
}

// maintain also follows a plan that could be applied in part only: what runs of
// it needs the same care. An error is logged once until it changes.
func (a *agent) maintain(ctx context.Context, s *state) {
	text := ""
	if err := a.executor.Maintain(ctx); err != nil {
		text = err.Error()
	}
	if text != s.lastMaintenance && text != "" {
		a.log.Warn("maintaining the tunnels failed", "error", text)
	}
	s.lastMaintenance = text
}

// readFacts reads the node's facts if they are old. If they cannot be read,
// those known before stand.
func (a *agent) readFacts(s *state, table int) error {
	if time.Since(s.factsAt) < factsInterval {
		return nil
	}
	facts, err := a.facts(table)
	if err == nil {
		s.facts, s.factsAt = facts, time.Now()
		return nil
	}
	if s.facts.Underlay.IsValid() {
		a.log.Warn("this node's facts cannot be read, the last ones stand", "error", err)
		return nil
	}
	return fmt.Errorf("read this node's facts: %w", err)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func drain(changed <-chan struct{}) {
	select {
	case <-changed:
	default:
	}
}
