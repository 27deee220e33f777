package probe

import "context"

// Prober sends probes and keeps the verdicts. Its methods are safe for
// concurrent use.
type Prober struct {
	options Options
	changed chan struct{}
}

// New returns a Prober without targets.
func New(options Options) *Prober {
	return &Prober{options: options.withDefaults(), changed: make(chan struct{}, 1)}
}

// SetTargets replaces the targets. A target that stays (same addresses, same
// device) keeps its history.
func (p *Prober) SetTargets(links []LinkTarget, nodes []NodeTarget) {}

// Run probes until the context ends.
func (p *Prober) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Snapshot returns the present results.
func (p *Prober) Snapshot() Snapshot { return Snapshot{} }

// Changed delivers a value after a verdict or a reach set changed, or a first
// round-trip time came in. Changes coalesce.
func (p *Prober) Changed() <-chan struct{} { return p.changed }
