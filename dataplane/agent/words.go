package agent

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// words are those in force. Only the holder of mu writes them to the maps.
type words struct {
	mu    sync.Mutex
	known bool // read back or written by this agent
	last  plan.Words
}

// followProbes chooses anew whenever the probes saw a change. It waits for
// nothing but the probes: no API server and no apply is in this loop.
func (a *agent) followProbes(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.prober.Changed():
			if err := a.choose(); err != nil {
				a.log.Error("choosing paths failed", "error", err)
			}
		}
	}
}

// choose writes the words that follow from what the probes see now. Before the
// first plan of this agent, the words of an earlier one stand.
func (a *agent) choose() error {
	names := a.namesInForce()
	a.words.mu.Lock()
	defer a.words.mu.Unlock()
	if len(names.Nodes) == 0 {
		return nil
	}
	if !a.words.known {
		last, err := a.executor.Words()
		if err != nil {
			return fmt.Errorf("read words in force: %w", err)
		}
		a.words.last, a.words.known = last, true
	}
	next := path.Choose(pathInput(&names, a.prober.Snapshot(), a.words.last))
	if err := a.executor.SetWords(next); err != nil {
		return fmt.Errorf("write words: %w", err)
	}
	if !reflect.DeepEqual(next, a.words.last) {
		a.log.Info("paths chosen", "paths", next.Paths, "choices", next.Choices, "reach", next.Reach.Bits)
	}
	a.words.last = next
	return nil
}

// forget follows the zero plan, which takes the maps away.
func (w *words) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.last = false, plan.Words{}
}

func (w *words) get() plan.Words {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
