// Package agent runs Weft on a node: it follows the cluster's objects, plans,
// applies, probes, chooses paths, and publishes what it knows of its node.
//
// What it makes in the kernel outlives it. Until its source has synced it
// changes nothing, so an agent that starts while the API server is away leaves
// everything as it is.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/dataplane/agentapi"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/metrics"
	"github.com/weft-fabric/weft/dataplane/node"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
	"github.com/weft-fabric/weft/dataplane/source"
)

// Options of an agent.
type Options struct {
	// Node is the name of the node: that of its FabricNode.
	Node   string
	Source source.Source
	// Underlay is the node's underlay address; if invalid, that of its default
	// route.
	Underlay netip.Addr
	// PinRoot, StateDir and RunDir are those of apply.Options.
	PinRoot, StateDir, RunDir string
	Log                       *slog.Logger
}

// executor is what the agent needs of package apply.
type executor interface {
	Apply(context.Context, plan.Plan) (apply.Report, error)
	Maintain(context.Context) error
	SetWords(plan.Words) error
	Words() (plan.Words, error)
	LinkIDs() map[plan.LinkKey]uint16
	Counters() ([]apply.Counter, error)
	HostDrops() ([]apply.HostDrop, error)
	Maps() ([]apply.MapFill, error)
	Lanes() ([]apply.LaneState, error)
	Watch(context.Context) <-chan struct{}
	RemoveState() error
}

// prober is what the agent needs of package probe.
type prober interface {
	SetTargets([]probe.PathTarget, []probe.NodeTarget)
	Snapshot() probe.Snapshot
	Changed() <-chan struct{}
}

// apiServer is what the agent needs of package agentapi.
type apiServer interface {
	SetState(agentapi.State)
	CertificateSHA256() string
}

// agent holds the parts and what they share.
type agent struct {
	node     string
	log      *slog.Logger
	source   source.Source
	facts    func(table int) (node.Facts, error)
	executor executor
	prober   prober
	api      apiServer
	status   *statusWriter
	ports    chan int // of the metrics endpoint

	choice choosing
	again  chan time.Time // when to choose again, see wakeAt

	mu      sync.Mutex
	names   plan.Names // of the plan in force
	targets targets    // likewise
	ready   error      // why the node is not as planned, nil if it is
}

// Run runs the agent until the context ends, and leaves everything in the
// kernel as it is then.
func Run(ctx context.Context, o Options) error {
	executor, err := apply.New(apply.Options{PinRoot: o.PinRoot, StateDir: o.StateDir, RunDir: o.RunDir, Log: o.Log})
	if err != nil {
		return fmt.Errorf("prepare executor: %w", err)
	}
	defer func() { _ = executor.Close() }()
	a := &agent{
		node: o.Node, log: o.Log, source: o.Source, executor: executor,
		facts:  func(table int) (node.Facts, error) { return node.Discover(o.Underlay, table) },
		status: newStatusWriter(o.Source, o.Node, o.Log),
		ports:  make(chan int, 1),
		again:  make(chan time.Time, 1),
		ready:  errNotSynced,
	}
	prober := probe.New(probe.Options{Log: o.Log})
	api, err := agentapi.New(agentapi.Options{Log: o.Log, StateDir: o.StateDir, Measurements: a.measurements})
	if err != nil {
		return fmt.Errorf("prepare agent API: %w", err)
	}
	a.prober, a.api = prober, api

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return o.Source.Run(ctx) })
	group.Go(func() error { return prober.Run(ctx) })
	group.Go(func() error { return api.Run(ctx) })
	group.Go(func() error { return a.status.run(ctx) })
	group.Go(func() error { return a.serveMetrics(ctx, metrics.New(a.metricsSources())) })
	group.Go(func() error { return a.followProbes(ctx) })
	group.Go(func() error { return a.followObjects(ctx) })
	return group.Wait()
}

func (a *agent) namesInForce() plan.Names {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names
}

// inForce returns what the plan in force names and what to probe of it.
func (a *agent) inForce() (plan.Names, targets) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names, a.targets
}

func (a *agent) setReady(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = err
}

// readiness is nil once the node is as planned.
func (a *agent) readiness() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ready
}

// apiState says what the plan means for the agent's API and its channel.
func apiState(snapshot *source.Snapshot, underlay netip.Addr, p *plan.Plan) agentapi.State {
	config := snapshot.Config
	s := agentapi.State{
		Identity:        config.Status.Identity,
		Listen:          netip.AddrPortFrom(underlay, uint16(config.Spec.Ports.Agent)),
		ChannelEndpoint: config.Status.ChannelEndpoint,
		Transit:         agentapi.TransitOf(snapshot.Neighbors),
	}
	for _, lane := range p.Lanes {
		if lane.ChannelAddress.IsValid() {
			s.ChannelAddress = lane.ChannelAddress
		}
		for _, peer := range lane.Peers {
			s.Peers = append(s.Peers, peer.ChannelAddress)
		}
	}
	return s
}
