package agent

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// choosing holds the choice in force. Only the holder of mu writes its words to
// the maps and its targets to the prober.
type choosing struct {
	mu      sync.Mutex
	known   bool // read back or written by this agent
	last    path.Choice
	targets targets // of the prober
}

// chooseRetry is how long after words could not be written it is tried again.
const chooseRetry = time.Second

// followProbes chooses anew whenever the probes saw a change, and when a better
// path has lasted long enough or round-trip times are to be compared again. It
// waits for no API server and for no apply.
func (a *agent) followProbes(ctx context.Context) error {
	again := time.NewTimer(0)
	defer again.Stop()
	lastFailure := "" // logged once until it changes
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-a.again:
			if again.Stop(); !at.IsZero() {
				again.Reset(time.Until(at))
			}
			continue
		case <-a.prober.Changed():
		case <-again.C:
		}
		failure := ""
		if err := a.choose(); err != nil {
			failure = err.Error()
		}
		if failure != "" && failure != lastFailure {
			a.log.Error("choosing paths failed, trying again", "error", failure)
		}
		lastFailure = failure
	}
}

// choose writes the words that follow from what the probes see now, and turns
// the probes to what matters then. Before the first plan of this agent, the words
// of an earlier one stand.
func (a *agent) choose() error {
	a.choice.mu.Lock()
	defer a.choice.mu.Unlock()
	names, base := a.inForce()
	if len(names.Nodes) == 0 {
		a.probe(base)
		return nil
	}
	now := time.Now()
	next, err := a.chooseFor(&names, now)
	if err != nil {
		a.probe(base.withPace(a.choice.last))
		a.wakeAt(now.Add(chooseRetry))
		return err
	}
	a.tellChanges(&names, next)
	a.choice.last = next
	a.probe(base.withPace(next))
	a.wakeAt(next.Again)
	return nil
}

func (a *agent) chooseFor(names *plan.Names, now time.Time) (path.Choice, error) {
	if !a.choice.known {
		words, err := a.executor.Words()
		if err != nil {
			return path.Choice{}, fmt.Errorf("read words in force: %w", err)
		}
		a.choice.last, a.choice.known = path.Choice{Words: words}, true
	}
	next := path.Choose(pathInput(names, a.prober.Snapshot(), a.choice.last, now))
	if err := a.executor.SetWords(next.Words); err != nil {
		return path.Choice{}, fmt.Errorf("write words: %w", err)
	}
	return next, nil
}

// probe hands targets to the prober if they are others than before.
func (a *agent) probe(t targets) {
	if !reflect.DeepEqual(t, a.choice.targets) {
		a.choice.targets = t
		a.prober.SetTargets(t.paths, t.nodes)
	}
}

// wakeAt says when to choose again at the latest; zero: when the probes say so.
// The caller holds choice.mu, so nobody else sends.
func (a *agent) wakeAt(at time.Time) {
	select {
	case <-a.again:
	default:
	}
	a.again <- at
}

// tellChanges logs what the next choice changes.
func (a *agent) tellChanges(names *plan.Names, next path.Choice) {
	last := a.choice.last.Words
	for i := range names.Paths {
		n := &names.Paths[i]
		index := uint32(n.ClusterIndex)
		if next.Paths[index] == uint32(n.Link) && last.Paths[index] != uint32(n.Link) {
			a.log.Info("path changed", "cluster", n.Cluster, "via", n.Via, "link", n.Link, "former link", last.Paths[index], "reason", next.Reasons[pathKey(n)])
		}
	}
	if !reflect.DeepEqual(next.Words, last) {
		a.log.Info("paths chosen", "paths", next.Paths, "choices", next.Choices, "reach", next.Reach.Bits)
	}
}

// forget follows the zero plan, which takes the maps away.
func (c *choosing) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.last = false, path.Choice{}
}

func (c *choosing) get() path.Choice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
