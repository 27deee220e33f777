package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/agentapi"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/node"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/probe"
	"github.com/weft-fabric/weft/dataplane/source"
)

// patience bounds how long a test waits for an event.
const patience = 10 * time.Second

// fakeSource holds objects in memory. Writing a status changes its node, as an
// API server does.
type fakeSource struct {
	mu       sync.Mutex
	snapshot source.Snapshot
	changed  chan struct{}
	written  chan v1alpha1.FabricNodeStatus
	// down blocks WriteStatus until its context ends.
	down bool
}

func newFakeSource(s source.Snapshot) *fakeSource {
	return &fakeSource{snapshot: s, changed: make(chan struct{}, 1), written: make(chan v1alpha1.FabricNodeStatus, 100)}
}

func (f *fakeSource) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (f *fakeSource) Snapshot() source.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

func (f *fakeSource) Changed() <-chan struct{} { return f.changed }

func (f *fakeSource) WriteStatus(ctx context.Context, status v1alpha1.FabricNodeStatus) error {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		<-ctx.Done()
		return ctx.Err()
	}
	f.change(func(s *source.Snapshot) {
		s.Nodes = append([]v1alpha1.FabricNode(nil), s.Nodes...)
		for i := range s.Nodes {
			if s.Nodes[i].Name == "a1" {
				s.Nodes[i].Status = status
			}
		}
	})
	f.written <- status
	return nil
}

func (f *fakeSource) change(edit func(*source.Snapshot)) {
	f.mu.Lock()
	edit(&f.snapshot)
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// fakeExecutor records what it is told.
type fakeExecutor struct {
	mu       sync.Mutex
	fail     error
	previous plan.Words // of an earlier agent
	words    []plan.Words
	wordsErr error // what SetWords returns
	refused  int   // how often it did
	atApply  plan.Words
	links    map[plan.LinkKey]uint16
	removed  bool
	drift    chan struct{}
	applied  chan plan.Plan
	// maintained gets a value for each Maintain, if somebody waits for it.
	maintained chan struct{}
}

func newFakeExecutor() *fakeExecutor {
	return &fakeExecutor{drift: make(chan struct{}, 1), applied: make(chan plan.Plan, 100), maintained: make(chan struct{})}
}

func (f *fakeExecutor) Apply(_ context.Context, p plan.Plan) (apply.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.words) > 0 {
		f.atApply = f.words[len(f.words)-1]
	}
	f.links = map[plan.LinkKey]uint16{}
	for id, l := range p.Maps.Links {
		f.links[plan.LinkKey{Cluster: l.Value.Cluster, RemoteGateway: l.Value.RemoteGateway}] = uint16(id)
	}
	f.applied <- p
	var r apply.Report
	for _, l := range p.Lanes {
		r.Lanes = append(r.Lanes, apply.LaneFact{Device: l.Device, Port: l.Port, PublicKey: [32]byte{7}})
	}
	return r, f.fail
}

func (f *fakeExecutor) setFail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *fakeExecutor) SetWords(w plan.Words) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wordsErr != nil {
		f.refused++
		return f.wordsErr
	}
	f.words = append(f.words, w)
	return nil
}

func (f *fakeExecutor) failWords(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wordsErr = err
}

func (f *fakeExecutor) failedWords() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// wordsAtApply are those that were in force when the last plan was applied.
func (f *fakeExecutor) wordsAtApply() plan.Words {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.atApply
}

func (f *fakeExecutor) lastWords() plan.Words {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.words) == 0 {
		return plan.Words{}
	}
	return f.words[len(f.words)-1]
}

func (f *fakeExecutor) Maintain(context.Context) error {
	select {
	case f.maintained <- struct{}{}:
	default:
	}
	return nil
}

func (f *fakeExecutor) RemoveState() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = true
	return nil
}

func (f *fakeExecutor) LinkIDs() map[plan.LinkKey]uint16 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.links
}

func (f *fakeExecutor) Words() (plan.Words, error)            { return f.previous, nil }
func (f *fakeExecutor) Counters() ([]apply.Counter, error)    { return nil, nil }
func (f *fakeExecutor) HostDrops() ([]apply.HostDrop, error)  { return nil, nil }
func (f *fakeExecutor) Maps() ([]apply.MapFill, error)        { return nil, nil }
func (f *fakeExecutor) Lanes() ([]apply.LaneState, error)     { return nil, nil }
func (f *fakeExecutor) Watch(context.Context) <-chan struct{} { return f.drift }

// fakeProber shows what the test sets.
type fakeProber struct {
	mu      sync.Mutex
	seen    probe.Snapshot
	paths   []probe.PathTarget
	nodes   []probe.NodeTarget
	changed chan struct{}
}

func (f *fakeProber) SetTargets(paths []probe.PathTarget, nodes []probe.NodeTarget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths, f.nodes = paths, nodes
}

func (f *fakeProber) targets() []probe.PathTarget {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paths
}

func (f *fakeProber) Snapshot() probe.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (f *fakeProber) Changed() <-chan struct{} { return f.changed }

// see gives the verdict on link 1 to cluster 5.
func (f *fakeProber) see(state v1alpha1.PathState) { f.show(result(5, 1, state, 20)) }

// show makes these the results, and says so.
func (f *fakeProber) show(paths ...probe.PathResult) {
	f.mu.Lock()
	f.seen = probe.Snapshot{Paths: paths}
	f.mu.Unlock()
	f.changed <- struct{}{}
}

// result of a path whose state is new.
func result(cluster int32, link uint16, state v1alpha1.PathState, rttMilliseconds int64) probe.PathResult {
	r := probe.PathResult{Target: probe.PathTarget{ClusterIndex: cluster, Link: link}}
	r.State, r.Since, r.RTTMicroseconds = state, time.Now(), 1000*rttMilliseconds
	return r
}

type fakeAPI struct {
	mu    sync.Mutex
	state agentapi.State
}

func (f *fakeAPI) SetState(s agentapi.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
}
func (f *fakeAPI) CertificateSHA256() string { return "c0ffee" }

// bench is a running agent with fakes around it.
type bench struct {
	*agent
	t        *testing.T
	source   *fakeSource
	executor *fakeExecutor
	prober   *fakeProber
	api      *fakeAPI
}

// start runs an agent of node a1 until the test ends.
func start(t *testing.T, s source.Snapshot, prepare ...func(*bench)) *bench {
	t.Helper()
	b := &bench{t: t, source: newFakeSource(s), executor: newFakeExecutor(), prober: &fakeProber{changed: make(chan struct{}, 1)}, api: &fakeAPI{}}
	log := slog.New(slog.DiscardHandler)
	b.agent = &agent{
		node: "a1", log: log, source: b.source, executor: b.executor, prober: b.prober, api: b.api,
		facts: func(int) (node.Facts, error) {
			return node.Facts{Underlay: netip.MustParseAddr("192.168.0.1"), UnderlayMTU: 1500}, nil
		},
		status: newStatusWriter(b.source, "a1", log), ports: make(chan int, 1), again: make(chan time.Time, 1), ready: errNotSynced,
	}
	for _, p := range prepare {
		p(b)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{b.followObjects, b.followProbes, b.status.run} {
		group.Go(func() { _ = run(ctx) })
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	return b
}

// nextPlan waits for the next Apply.
func (b *bench) nextPlan() plan.Plan {
	b.t.Helper()
	select {
	case p := <-b.executor.applied:
		return p
	case <-time.After(patience):
		require.FailNow(b.t, "nothing was applied")
		return plan.Plan{}
	}
}

// statusWith waits for a status whose Ready condition has the reason.
func (b *bench) statusWith(reason string) v1alpha1.FabricNodeStatus {
	b.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case s := <-b.source.written:
			if s.Conditions[0].Reason == reason {
				return s
			}
		case <-deadline:
			require.FailNow(b.t, "no status was written", "reason %s", reason)
		}
	}
}

// snapshot is a synced cluster with gateway a1 and neighbor b.
func snapshot() source.Snapshot {
	id := v1alpha1.Identity(strings.Repeat("b", 52))
	row := func(side v1alpha1.RowSide, origin, network int32, local, wire v1alpha1.CIDR) v1alpha1.Row {
		return v1alpha1.Row{Side: side, OwnGateway: 1, RemoteGateway: 1, OriginIndex: origin, NetworkIndex: network, Local: local, Wire: wire}
	}
	neighbor := v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "uid-b", Generation: 2}}
	neighbor.Spec = v1alpha1.NeighborSpec{
		Identity: id, ClusterIndex: 5,
		Peers: []v1alpha1.NeighborPeer{{
			GatewayID: 1, ChannelAddress: identity.ChannelAddress(id, 1).String(),
			Lanes: []v1alpha1.PeerLane{{Port: 51847, PublicKey: "BwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}},
		}},
		Networks: []v1alpha1.ViewNetwork{{Name: "nodes", Kind: v1alpha1.NetworkNode, Index: 2, Local: "100.71.0.0/20"}},
		Rows: []v1alpha1.Row{
			row(v1alpha1.RowOurs, 5, 2, "100.71.0.0/20", "240.2.0.0/20"), row(v1alpha1.RowTheirs, 0, 2, "100.64.0.0/20", "240.9.0.0/20"),
		},
	}
	config := &v1alpha1.FabricConfig{}
	config.Spec.WirePools = []v1alpha1.CIDR{"240.0.0.0/5"}
	config.Spec.Ports = v1alpha1.PortsSpec{Lane: 51847, Overlay: 4797, Agent: 9810, Metrics: 9813}
	config.Status.Identity = v1alpha1.Identity(strings.Repeat("a", 52))
	config.Status.Networks = []v1alpha1.OwnNetwork{
		{Name: "pods", Kind: v1alpha1.NetworkPod, CIDR: "10.244.0.0/16", Index: 1}, {Name: "nodes", Kind: v1alpha1.NetworkNode, CIDR: "100.64.0.0/20", Index: 2},
	}
	a1 := v1alpha1.FabricNode{ObjectMeta: metav1.ObjectMeta{Name: "a1"}, Spec: v1alpha1.FabricNodeSpec{FabricAddress: "100.64.0.1", GatewayID: 1}}
	return source.Snapshot{
		ConfigSynced: true, NodesSynced: true, NeighborsSynced: true, VNISynced: true, PodsSynced: true,
		Config: config, Nodes: []v1alpha1.FabricNode{a1}, Neighbors: []v1alpha1.Neighbor{neighbor}, VNI: 7,
		Pods: []netip.Addr{netip.MustParseAddr("10.244.1.5")},
	}
}

var errBroken = errors.New("the kernel said no")
