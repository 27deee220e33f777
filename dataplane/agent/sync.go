package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/agentapi"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/node"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/source"
)

// sync makes the node what the objects say now.
func (a *agent) sync(ctx context.Context, s *state, force bool) error {
	snapshot := a.source.Snapshot()
	if !snapshot.Synced() {
		return nil // no plan, and no retry: the source tells when it is
	}
	if snapshot.Config == nil || snapshot.Config.DeletionTimestamp != nil {
		return a.tearDown(ctx, s, snapshot.Config)
	}
	s.tornDown = ""
	if err := a.readFacts(s, int(snapshot.Config.Spec.Routing.Table)); err != nil {
		a.setReady(err)
		return err
	}
	p, problems := plan.Build(input(a.node, &snapshot, s.facts, a.executor.LinkIDs()))
	if s.applied == nil {
		a.introduce(s, &snapshot)
	}
	err := a.apply(ctx, s, &p, force)
	a.api.SetState(apiState(&snapshot, s.facts.Underlay, &p))
	a.setPort(int(snapshot.Config.Spec.Ports.Metrics))
	a.setReady(err)
	a.notice(s, problems)
	a.publish(s, &snapshot, &p, problems, err)
	return err
}

// introduce publishes the facts of a node that has published nothing yet, before
// its first plan is applied: the controller waits for them, and a lane may take
// its time.
func (a *agent) introduce(s *state, snapshot *source.Snapshot) {
	for _, n := range snapshot.Nodes {
		if n.Name == a.node && n.Status.UnderlayAddress == "" {
			a.publish(s, snapshot, &plan.Plan{}, []plan.Problem{{Message: "the first plan is being applied"}}, nil)
		}
	}
}

// publish hands the status of this node to the writer.
func (a *agent) publish(s *state, snapshot *source.Snapshot, p *plan.Plan, problems []plan.Problem, err error) {
	for _, n := range snapshot.Nodes {
		if n.Name == a.node {
			a.status.set(composeStatus(statusInput{
				previous: a.status.previous(n.Status), facts: s.facts, pods: podPrefixes(snapshot, n.Status.PodPrefixes),
				certificate: a.api.CertificateSHA256(), plan: p, report: s.report, problems: problems, err: err,
				generation: n.Generation, now: metav1.Now().Rfc3339Copy(),
			}))
		}
	}
}

// input puts together what a plan depends on.
func input(name string, snapshot *source.Snapshot, facts node.Facts, links map[plan.LinkKey]uint16) plan.Input {
	return plan.Input{
		Node: name, Config: snapshot.Config, Nodes: ownStatus(name, snapshot, facts), Neighbors: snapshot.Neighbors,
		VNI: snapshot.VNI, Facts: facts, LinkIDs: links,
	}
}

// ownStatus puts what this agent knows of its own node in the place of what it
// last published.
func ownStatus(name string, snapshot *source.Snapshot, facts node.Facts) []v1alpha1.FabricNode {
	nodes := slices.Clone(snapshot.Nodes)
	for i := range nodes {
		if nodes[i].Name == name {
			nodes[i].Status.UnderlayAddress = facts.Underlay.String()
			nodes[i].Status.UnderlayMTU = int32(facts.UnderlayMTU)
			nodes[i].Status.PodPrefixes = podPrefixes(snapshot, nodes[i].Status.PodPrefixes)
		}
	}
	return nodes
}

// apply makes the plan true, then probes and chooses by it.
func (a *agent) apply(ctx context.Context, s *state, p *plan.Plan, force bool) error {
	if force || s.applied == nil || !reflect.DeepEqual(*s.applied, *p) {
		if err := a.leave(p); err != nil {
			a.log.Warn("traffic stays on paths that are about to go", "error", err)
		}
		report, err := a.executor.Apply(ctx, *p)
		s.report = report
		if s.applied = nil; err == nil {
			s.applied = p
		}
		a.follow(p)
		if err != nil {
			return errors.Join(fmt.Errorf("apply plan: %w", err), a.choose())
		}
	}
	return a.choose()
}

// follow turns the next choice, and with it the probes, to what the plan names.
func (a *agent) follow(p *plan.Plan) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names, a.targets = p.Names, targetsOf(a.node, p)
}

// tearDown removes all that Weft made on this node. With the FabricConfig going
// away for good, the node's keys go as well.
func (a *agent) tearDown(ctx context.Context, s *state, config *v1alpha1.FabricConfig) error {
	reason := reasonNoFabricConfig
	if config != nil {
		reason = v1alpha1.ReasonTornDown
	}
	if s.tornDown == reason {
		return nil
	}
	a.follow(&plan.Plan{})
	_ = a.choose() // ends the probes; there is nothing to choose any more
	a.api.SetState(agentapi.State{})
	_, err := a.executor.Apply(ctx, plan.Plan{})
	if err == nil && config != nil {
		err = a.executor.RemoveState()
	}
	a.choice.forget()
	s.applied, s.report = nil, apply.Report{}
	a.setReady(errNoFabricConfig)
	a.status.set(tornDownStatus(reason, err, metav1.Now().Rfc3339Copy()))
	if err != nil {
		return fmt.Errorf("remove Weft from this node: %w", err)
	}
	s.tornDown = reason
	return nil
}
