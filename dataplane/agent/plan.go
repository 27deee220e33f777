package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/node"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// Plan waits until the source has synced, which the caller runs, and returns
// what the node should have. It changes nothing.
func Plan(ctx context.Context, o Options) (plan.Plan, []plan.Problem, error) {
	snapshot := o.Source.Snapshot()
	for !snapshot.Synced() {
		select {
		case <-ctx.Done():
			return plan.Plan{}, nil, errors.New("the cluster's objects could not be read in time; is the API server reachable?")
		case <-o.Source.Changed():
			snapshot = o.Source.Snapshot()
		}
	}
	if snapshot.Config == nil {
		return plan.Plan{}, nil, errNoFabricConfig
	}
	facts, err := node.Discover(o.Underlay, int(snapshot.Config.Spec.Routing.Table))
	if err != nil {
		return plan.Plan{}, nil, fmt.Errorf("read this node's facts: %w", err)
	}
	executor, err := apply.New(apply.Options{PinRoot: o.PinRoot, StateDir: o.StateDir, RunDir: o.RunDir, Log: o.Log})
	if err != nil {
		return plan.Plan{}, nil, fmt.Errorf("prepare executor: %w", err)
	}
	defer func() { _ = executor.Close() }()
	p, problems := plan.Build(input(o.Node, &snapshot, facts, executor.LinkIDs()))
	return p, problems, nil
}
