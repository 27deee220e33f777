package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/agentapi"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/node"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/source"
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
	lastAlarm, lastNotice string
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

func (a *agent) maintain(ctx context.Context, s *state) {
	if s.applied == nil {
		return
	}
	if err := a.executor.Maintain(ctx); err != nil {
		a.log.Warn("maintaining the tunnels failed", "error", err)
	}
}

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
	a.api.SetState(apiState(snapshot.Config, s.facts.Underlay, &p))
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
		report, err := a.executor.Apply(ctx, *p)
		s.report = report
		if s.applied = nil; err == nil {
			s.applied = p
		}
		a.follow(p.Names)
		if err != nil {
			return errors.Join(fmt.Errorf("apply plan: %w", err), a.choose())
		}
	}
	return a.choose()
}

// follow turns probes and choices to what the plan names.
func (a *agent) follow(names plan.Names) {
	a.mu.Lock()
	a.names = names
	a.mu.Unlock()
	a.prober.SetTargets(targets(a.node, &names))
}

// tearDown removes all that Weft made on this node. With the FabricConfig going
// away for good, the node's keys go as well.
func (a *agent) tearDown(ctx context.Context, s *state, config *v1alpha1.FabricConfig) error {
	reason := reasonNoFabricConfig
	if config != nil {
		reason = reasonTornDown
	}
	if s.tornDown == reason {
		return nil
	}
	a.follow(plan.Names{})
	a.api.SetState(agentapi.State{})
	_, err := a.executor.Apply(ctx, plan.Plan{})
	if err == nil && config != nil {
		err = a.executor.RemoveState()
	}
	a.words.forget()
	s.applied, s.report = nil, apply.Report{}
	a.setReady(errNoFabricConfig)
	a.status.set(tornDownStatus(reason, err, metav1.Now().Rfc3339Copy()))
	if err != nil {
		return fmt.Errorf("remove Weft from this node: %w", err)
	}
	s.tornDown = reason
	return nil
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
