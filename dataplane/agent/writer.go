package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/source"
)

const (
	// writeGap gathers changes that follow each other; the first is written at
	// once, since other nodes wait for a new pod's address.
	writeGap     = 100 * time.Millisecond
	writeTimeout = 10 * time.Second
	// echoTime is how long a written status may take to come back from the
	// source before it is taken to be lost.
	echoTime     = 5 * time.Second
	recheckEvery = 10 * time.Second
)

// statusWriter writes this node's status when it differs from what the source
// holds. It is a goroutine of its own: nothing else waits for the API server.
type statusWriter struct {
	source source.Source
	node   string
	log    *slog.Logger
	kick   chan struct{}

	mu      sync.Mutex
	desired *v1alpha1.FabricNodeStatus
}

func newStatusWriter(s source.Source, node string, log *slog.Logger) *statusWriter {
	return &statusWriter{source: s, node: node, log: log, kick: make(chan struct{}, 1)}
}

// set says what the status should be.
func (w *statusWriter) set(status v1alpha1.FabricNodeStatus) {
	w.mu.Lock()
	w.desired = &status
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// previous returns what was set last, else what the source holds.
func (w *statusWriter) previous(observed v1alpha1.FabricNodeStatus) v1alpha1.FabricNodeStatus {
	if d := w.get(); d != nil {
		return *d
	}
	return observed
}

func (w *statusWriter) get() *v1alpha1.FabricNodeStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.desired
}

// run writes until the context ends.
func (w *statusWriter) run(ctx context.Context) error {
	var written *v1alpha1.FabricNodeStatus
	var at time.Time
	recheck := time.NewTicker(recheckEvery)
	defer recheck.Stop()
	retry := time.NewTimer(recheckEvery)
	defer retry.Stop()
	wait := firstRetry
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.kick:
		case <-retry.C:
		case <-recheck.C:
		}
		sleep(ctx, writeGap-time.Since(at))
		desired := w.get()
		if desired == nil || !w.differs(desired) {
			continue
		}
		if written != nil && equality.Semantic.DeepEqual(written, desired) && time.Since(at) < echoTime {
			continue
		}
		if err := w.write(ctx, desired); err != nil {
			if ctx.Err() == nil {
				w.log.Warn("the status of this node could not be written, trying again", "error", err)
			}
			retry.Reset(wait)
			wait = min(2*wait, recheckEvery)
			continue
		}
		written, at, wait = desired, time.Now(), firstRetry
	}
}

// differs reports whether the source holds this node with another status.
func (w *statusWriter) differs(desired *v1alpha1.FabricNodeStatus) bool {
	for _, n := range w.source.Snapshot().Nodes {
		if n.Name == w.node {
			return !equality.Semantic.DeepEqual(n.Status, *desired)
		}
	}
	return false
}

func (w *statusWriter) write(ctx context.Context, status *v1alpha1.FabricNodeStatus) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return w.source.WriteStatus(ctx, *status)
}
