// Package measure keeps what the gateways' probes see, read from their agents
// every few seconds and never stored in the API server at that speed.
package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/agentclient"
)

const (
	// Interval is how often the controller asks.
	Interval = 2 * time.Second
	timeout  = 2 * time.Second
	// stale is how long an answer counts while new ones fail: an agent that
	// restarts is back sooner.
	stale = 10 * time.Second
	// parallel bounds how many agents are asked at once.
	parallel = 16
)

// Poller asks the agents of all gateways.
type Poller struct {
	// Gateways returns the agents to ask; none while there is nothing to measure.
	Gateways func(context.Context) ([]agentclient.Agent, error)
	// Ask one agent.
	Ask func(context.Context, agentclient.Agent) (agent.Measurements, error)
	// Changed is called after a turn in which the state of a link changed, or
	// whether an agent can be read.
	Changed  func()
	Interval time.Duration
	Now      func() time.Time

	told string // summary after the last turn; used by turn only

	mu      sync.Mutex
	results map[string]result
}

type result struct {
	gateway int32
	at      time.Time // of measurements
	failed  error     // of the last turn
	read    agent.Measurements
	// fragments of the gateway's links, as the far ends count them.
	fragments map[Path]fragmentCount
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	ticker := time.NewTicker(p.Interval)
	defer ticker.Stop()
	for {
		p.turn(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (p *Poller) turn(ctx context.Context) {
	agents, err := p.Gateways(ctx)
	if err != nil {
		return // the cache is not there yet; what is known ages
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, a := range agents {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			asking, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			read, err := p.Ask(asking, a)
			p.store(a, read, err)
		})
	}
	group.Wait()
	p.forget(agents)
	// Compared with the last turn: that an answer has become too old is a
	// transition too.
	if now := p.View().summary(); now != p.told {
		p.told = now
		p.Changed()
	}
}

func (p *Poller) store(a agentclient.Agent, read agent.Measurements, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.results == nil {
		p.results = map[string]result{}
	}
	r := p.results[a.Node]
	r.gateway, r.failed = a.GatewayID, err
	if err == nil {
		r.at, r.read = p.Now(), read
		r.fragments = followFragments(r.fragments, read.Paths, r.at)
	}
	p.results[a.Node] = r
}

// forget drops nodes that are no gateways any more.
func (p *Poller) forget(agents []agentclient.Agent) {
	keep := map[string]bool{}
	for _, a := range agents {
		keep[a.Node] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.results {
		if !keep[node] {
			delete(p.results, node)
		}
	}
}

// View is what is known now.
type View struct {
	// Links of all gateways that could be read.
	Paths []agent.Path
	// Fragmenting is the set of links whose outer packets have arrived in
	// fragments in the last minutes.
	Fragmenting map[Path]bool
	// Unreadable names gateways (nodes) and why they could not be read.
	Unreadable map[string]string
}

// Path names a path to a cluster.
type Path struct {
	OwnGateway, ClusterIndex, ViaIndex, RemoteGateway int32
}

// View returns what is known now. An answer that is too old counts as none.
func (p *Poller) View() View {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := View{Fragmenting: map[Path]bool{}, Unreadable: map[string]string{}}
	for node, r := range p.results {
		if p.Now().Sub(r.at) > stale {
			why := "no answer yet"
			if r.failed != nil {
				why = r.failed.Error()
			}
			v.Unreadable[node] = why
			continue
		}
		v.Paths = append(v.Paths, r.read.Paths...)
		for path, count := range r.fragments {
			if count.rising(p.Now()) {
				v.Fragmenting[path] = true
			}
		}
	}
	return v
}

// summary is equal for two views that differ only in figures.
func (v View) summary() string {
	type state struct {
		path      v1alpha1.PathState
		active    bool
		reason    v1alpha1.PathReason
		largeLost bool
	}
	states := map[Path]state{}
	for _, l := range v.Paths {
		states[PathOf(l)] = state{l.State, l.Active, l.Reason, l.LargeLost}
	}
	unreadable := map[string]bool{}
	for node := range v.Unreadable {
		unreadable[node] = true
	}
	// fmt prints maps sorted by key.
	return fmt.Sprint(states, v.Fragmenting, unreadable)
}
