package introduction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/fabric"
	"github.com/weft-fabric/weft/controlplane/measure"
	"github.com/weft-fabric/weft/controlplane/turn"
)

const (
	// lookEvery is the time between two turns without an event.
	lookEvery = 5 * time.Second
	// agentsPause is that time while agents put something in place.
	agentsPause = 500 * time.Millisecond
	// listenFirst is how long a new process listens before it lets a lease run out:
	// the channels have to come up.
	listenFirst = 30 * time.Second
)

// Provider is the half that is introduced: it makes ForeignClusters of the
// records that neighbors hand to this cluster, as far as local policy lets it,
// and reports back. One turn looks at all of them; nothing in it waits for a
// peer.
type Provider struct {
	Client   client.Client
	Self     v1alpha1.Identity
	Channels Channels
	View     func() measure.View
	// OffDirect reports whether all gateways send nothing over the direct link to
	// this ForeignCluster.
	OffDirect func(name string) bool
	// Again asks for another turn of package peering for a ForeignCluster, because
	// what is to be said to it has changed.
	Again func(name string)
	Now   func() time.Time
	Log   *slog.Logger

	// Used by turns only; lost at restart without harm.
	began   time.Time
	records parsed
	paces   map[v1alpha1.Identity]*pace

	mu sync.Mutex
	// reports by introducer; nil before the first turn.
	reports map[v1alpha1.Identity][]channel.Report
	told    map[v1alpha1.Identity]map[string]told
}

// Reports returns what to report to a neighbor, nil if that is not known yet.
func (p *Provider) Reports(id v1alpha1.Identity) []channel.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reports[id]
}

// Reconcile implements reconcile.Reconciler; the request says nothing.
func (p *Provider) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	return turn.Settle(p.reconcile(ctx))
}

// scene is what one turn looks at.
type scene struct {
	config    *v1alpha1.FabricConfig
	nodes     []v1alpha1.FabricNode
	alive     map[string]bool // nodes whose kubelet is ready
	clusters  []v1alpha1.ForeignCluster
	neighbors []v1alpha1.Neighbor
}

func (p *Provider) reconcile(ctx context.Context) (ctrl.Result, error) {
	s, err := p.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.began.IsZero() {
		p.began = p.Now()
	}
	p.records.turn()
	introducers, wait := p.introducers(s.clusters)
	decisions := p.decide(introducers)
	changes := plan(planInput{
		now: p.Now(), clusters: s.clusters, introducers: introducers, decisions: decisions,
		parse: p.records.parse, left: p.left,
	})
	changes = slices.DeleteFunc(changes, func(c change) bool { return c.have == nil && !p.mayMake(s, &c) })
	clusters, failed := p.apply(ctx, s.clusters, changes)
	p.report(s, clusters, introducers, decisions)
	if err := errors.Join(failed, p.state(ctx, clusters, decisions)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: min(wait, p.pause(clusters))}, nil
}

// mayMake reports whether to make a ForeignCluster now. An uninstalling cluster
// meets nobody new, others not too many. What has to wait is looked at anew after
// lookEvery at the latest.
func (p *Provider) mayMake(s *scene, c *change) bool {
	if s.config == nil || !s.config.DeletionTimestamp.IsZero() {
		return false
	}
	return slices.ContainsFunc(c.want.Status.Introductions, func(e v1alpha1.IntroductionStatus) bool {
		pace := p.paces[e.Identity]
		return pace != nil && pace.makes.AllowN(p.Now(), 1)
	})
}

// pause is how long to wait without an event: short while the agents' work is
// waited for.
func (p *Provider) pause(clusters []v1alpha1.ForeignCluster) time.Duration {
	for i := range clusters {
		for _, e := range clusters[i].Status.Introductions {
			_, reported := p.told[e.Identity][e.UID]
			if e.State == v1alpha1.IntroductionEnding || !reported {
				return agentsPause
			}
		}
	}
	return lookEvery
}

func (p *Provider) read(ctx context.Context) (*scene, error) {
	var configs v1alpha1.FabricConfigList
	var nodes v1alpha1.FabricNodeList
	var kubeNodes corev1.NodeList
	var clusters v1alpha1.ForeignClusterList
	var neighbors v1alpha1.NeighborList
	if err := p.Client.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("list foreign clusters: %w", err)
	}
	for what, list := range map[string]client.ObjectList{
		"fabric configs": &configs, "fabric nodes": &nodes, "nodes": &kubeNodes, "neighbors": &neighbors,
	} {
		// These are large, and only looked at.
		if err := p.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", what, err)
		}
	}
	s := &scene{nodes: nodes.Items, alive: fabric.ReadyNodes(kubeNodes.Items), clusters: clusters.Items, neighbors: neighbors.Items}
	for i := range configs.Items {
		if configs.Items[i].Name == v1alpha1.FabricConfigName {
			s.config = &configs.Items[i]
		}
	}
	return s, nil
}

// introducers are all neighbors, with what they say now, and how long to wait if
// one of them says more than it may.
func (p *Provider) introducers(clusters []v1alpha1.ForeignCluster) ([]introducer, time.Duration) {
	var out []introducer
	wait := lookEvery
	paces := map[v1alpha1.Identity]*pace{}
	for id, fc := range byIdentity(clusters) {
		if !fc.DeletionTimestamp.IsZero() {
			continue
		}
		status := p.Channels.Status(id)
		if paces[id] = p.paces[id]; paces[id] == nil {
			paces[id] = newPace()
		}
		list, later := paces[id].take(status.Said.Introductions, p.Now())
		if later > 0 {
			wait = min(wait, later)
		}
		out = append(out, introducer{
			name: fc.Name, identity: id, policy: fc.Spec.Access.Introductions,
			connected: status.Connected, list: list, early: list == nil && p.Now().Sub(p.began) < listenFirst,
		})
	}
	p.paces = paces
	return out, wait
}

func (p *Provider) decide(introducers []introducer) []decision {
	var out []decision
	for i := range introducers {
		for _, in := range introducers[i].list {
			out = append(out, admit(&introducers[i], in, p.Self, p.records.parse))
		}
	}
	return out
}

// left reports whether both ends have left the direct link, and know it of each
// other.
func (p *Provider) left(fc *v1alpha1.ForeignCluster) bool {
	status := p.Channels.Status(fc.Spec.Identity)
	return status.Said.OffDirect != "" && status.Acknowledged && p.OffDirect(fc.Name)
}

// apply makes the changes and returns the ForeignClusters as they are then. One
// that fails holds up no other.
func (p *Provider) apply(ctx context.Context, clusters []v1alpha1.ForeignCluster, changes []change) ([]v1alpha1.ForeignCluster, error) {
	now := map[string]*v1alpha1.ForeignCluster{}
	for i := range clusters {
		now[clusters[i].Name] = &clusters[i]
	}
	var failures []error
	for i := range changes {
		c := &changes[i]
		after, err := p.write(ctx, c)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if after == nil {
			delete(now, nameOf(c))
			continue
		}
		now[after.Name] = after
	}
	out := make([]v1alpha1.ForeignCluster, 0, len(now))
	for _, fc := range now {
		out = append(out, *fc)
	}
	return out, errors.Join(failures...)
}

// write makes one change and returns the object after it.
func (p *Provider) write(ctx context.Context, c *change) (*v1alpha1.ForeignCluster, error) {
	switch {
	case c.want == nil:
		p.Log.Info("no introduction stands any more; deleting", "foreignCluster", c.have.Name)
		err := p.Client.Delete(ctx, c.have, client.Preconditions{UID: &c.have.UID, ResourceVersion: &c.have.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("delete foreign cluster %s: %w", c.have.Name, err)
		}
		return nil, nil
	case c.have == nil:
		p.Log.Info("introduced", "foreignCluster", c.want.Name, "identity", c.want.Spec.Identity, "by", c.want.Spec.IntroducedBy, "accepted", c.want.Spec.IsAccepted())
		object := c.want.DeepCopy()
		object.Status = v1alpha1.ForeignClusterStatus{} // it is not written by this; what is left tells
		if err := p.Client.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("create foreign cluster %s: %w", c.want.Name, err)
		}
		return object, p.writeStatus(ctx, object, c.want)
	case c.grows:
		object := c.have.DeepCopy()
		if err := p.writeStatus(ctx, object, c.want); err != nil {
			return nil, err
		}
		return object, p.writeSpec(ctx, object, c)
	}
	object := c.have.DeepCopy()
	if err := p.writeSpec(ctx, object, c); err != nil {
		return nil, err
	}
	return object, p.writeStatus(ctx, object, c.want)
}

func (p *Provider) writeStatus(ctx context.Context, object, want *v1alpha1.ForeignCluster) error {
	if equality.Semantic.DeepEqual(object.Status, want.Status) {
		return nil
	}
	want.Status.DeepCopyInto(&object.Status)
	if err := p.Client.Status().Update(ctx, object); err != nil {
		return fmt.Errorf("write the status of foreign cluster %s: %w", object.Name, err)
	}
	return nil
}

func (p *Provider) writeSpec(ctx context.Context, object *v1alpha1.ForeignCluster, c *change) error {
	if equality.Semantic.DeepEqual(c.have.Spec, c.want.Spec) {
		return nil
	}
	p.Log.Info("introductions changed", "foreignCluster", object.Name, "by", c.want.Spec.IntroducedBy, "accepted", c.want.Spec.IsAccepted())
	c.want.Spec.DeepCopyInto(&object.Spec)
	if err := p.Client.Update(ctx, object); err != nil {
		return fmt.Errorf("update foreign cluster %s: %w", object.Name, err)
	}
	return nil
}

// report works out what each introducer is told, from what is written.
func (p *Provider) report(s *scene, clusters []v1alpha1.ForeignCluster, introducers []introducer, decisions []decision) {
	view := p.View()
	measured := func(name string) figures {
		for i := range s.neighbors {
			if s.neighbors[i].Name == name {
				f := figuresOf(&s.neighbors[i], s.config, view.Paths, fabric.MTU(s.nodes))
				f.closed = s.closed(&s.neighbors[i])
				return f
			}
		}
		return figuresOf(nil, s.config, nil, 0)
	}
	reports := map[v1alpha1.Identity][]channel.Report{}
	memory := map[v1alpha1.Identity]map[string]told{}
	for i := range introducers {
		from := &introducers[i]
		fresh := reportsTo(from, decisions, clusters, measured, p.told[from.identity])
		reports[from.identity], memory[from.identity] = pacedReports(fresh, p.told[from.identity], p.Now())
	}
	p.mu.Lock()
	before := p.reports
	p.reports, p.told = reports, memory
	p.mu.Unlock()
	for i := range introducers {
		if from := &introducers[i]; before == nil || !reflect.DeepEqual(before[from.identity], reports[from.identity]) {
			p.Again(from.name)
		}
	}
}

// closed reports whether all gateways keep payload to and from a neighbor off the
// hubs. One whose agent fails goes on as before, so it counts too, as long as its
// node lives; one that never had a lane carries nothing.
func (s *scene) closed(n *v1alpha1.Neighbor) bool {
	if n.Spec.Paths != v1alpha1.PathDirectOnly {
		return false
	}
	for i := range s.nodes {
		node := &s.nodes[i]
		if node.Spec.GatewayID == 0 || !s.alive[node.Name] || len(node.Status.Lanes) == 0 {
			continue
		}
		if !slices.ContainsFunc(node.Status.Applied, func(a v1alpha1.AppliedNeighbor) bool {
			return a.Name == n.Name && a.UID == n.UID && a.Generation >= n.Generation
		}) {
			return false
		}
	}
	return true
}

// state writes the condition Introductions of each introducer and logs its
// changes.
func (p *Provider) state(ctx context.Context, clusters []v1alpha1.ForeignCluster, decisions []decision) error {
	var failures []error
	for i := range clusters {
		fc := &clusters[i]
		if !fc.DeletionTimestamp.IsZero() || isDuplicate(fc) {
			continue
		}
		want := fc.DeepCopy()
		stateIntroductions(want, decisions, p.Reports(fc.Spec.Identity))
		if equality.Semantic.DeepEqual(want.Status.Conditions, fc.Status.Conditions) {
			continue
		}
		if err := p.Client.Status().Update(ctx, want); client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("write the status of foreign cluster %s: %w", fc.Name, err))
			continue
		}
		for _, c := range want.Status.Conditions {
			if c.Type == v1alpha1.ConditionIntroductions {
				p.Log.Info("introductions by a neighbor", "foreignCluster", fc.Name, "all", c.Status, "message", c.Message)
			}
		}
	}
	return errors.Join(failures...)
}
