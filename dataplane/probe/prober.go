package probe

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// key of a target: where it is sent from and to. What changes none of these
// keeps its history.
type key struct {
	device              string
	source, destination netip.Addr
}

// measured is a target with its history.
type measured struct {
	key
	*track
	path           *PathTarget // one of the two is set
	node           *NodeTarget
	outerFragments uint32
	reach          bpfgen.BorderWeftReach
}

// of names the cluster or node that answers.
func (m *measured) of() string {
	if m.path != nil {
		return "cluster " + m.path.Cluster
	}
	return "node " + m.node.Node
}

// Prober sends probes and keeps the verdicts. Its methods are safe for
// concurrent use.
type Prober struct {
	options Options
	changed chan struct{}
	sender  uint32    // tells our answers from those of other probers
	start   time.Time // zero of the clock in probes

	mu      sync.Mutex
	targets map[key]*measured
	lag     lag
	sockets map[string]*socket
	wake    int // eventfd while running, else -1
}

// New returns a Prober without targets.
func New(options Options) *Prober {
	var sender [4]byte
	rand.Read(sender[:]) // never fails (crypto/rand)
	return &Prober{
		options: options.withDefaults(),
		changed: make(chan struct{}, 1),
		sender:  binary.NativeEndian.Uint32(sender[:]),
		start:   time.Now(),
		targets: map[key]*measured{},
		sockets: map[string]*socket{},
		wake:    -1,
	}
}

// SetTargets replaces the targets. A target that stays (same addresses, same
// device) keeps its history. Targets with other than IPv4 addresses are
// ignored.
func (p *Prober) SetTargets(paths []PathTarget, nodes []NodeTarget) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	wanted := map[key]*measured{}
	add := func(m *measured) {
		if m.source.Is4() && m.destination.Is4() {
			wanted[m.key] = m
		}
	}
	for _, t := range paths {
		add(&measured{key: key{t.Device, t.Source, t.Destination}, path: &t})
	}
	for _, t := range nodes {
		add(&measured{key: key{t.Device, t.Source, t.Destination}, node: &t})
	}
	stretch := stretchFor(wanted, p.options)
	for k, m := range wanted {
		pace := paceOf(m, p.options, stretch)
		if old := p.targets[k]; old != nil && (old.path == nil) == (m.path == nil) {
			m.track, m.outerFragments, m.reach = old.track, old.outerFragments, old.reach
			m.setPace(pace, now)
		} else {
			m.track = newTrack(pace, m.of(), &p.lag, now)
		}
	}
	p.targets = wanted
	p.setSockets()
	p.notifyLoop()
}

// setSockets keeps one socket a device.
func (p *Prober) setSockets() {
	needed := map[string]bool{}
	for _, m := range p.targets {
		needed[m.device] = true
		if p.sockets[m.device] == nil {
			p.sockets[m.device] = newSocket(m.device, m.path != nil, p.options.Port, p.sender)
		}
	}
	for device, s := range p.sockets {
		if !needed[device] {
			s.close()
			delete(p.sockets, device)
		}
	}
}

func paceOf(m *measured, o Options, stretch float64) pace {
	interval := o.Interval
	if m.path != nil && m.path.Slow || m.node != nil && m.node.Slow {
		interval = o.SlowInterval
	}
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * stretch) }
	return pace{interval: scale(interval), burst: scale(o.BurstInterval)}
}

// stretchFor says by how much all intervals grow so that the budget holds.
func stretchFor(targets map[key]*measured, o Options) float64 {
	var perSecond float64
	for _, m := range targets {
		perSecond += float64(time.Second) / float64(paceOf(m, o, 1).interval)
	}
	return max(1, perSecond/float64(o.Budget))
}

// Run probes until the context ends. It is called once. All of its I/O happens
// in the calling goroutine: before probes are judged as missed, every answer
// that has arrived is taken, however late this process was scheduled.
func (p *Prober) Run(ctx context.Context) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("make eventfd for the prober: %w", err)
	}
	p.mu.Lock()
	p.wake = wake
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notifyLoop()
	})
	defer p.closeAll(stop)
	for ctx.Err() == nil {
		files, until := p.turn()
		files = append(files, unix.PollFd{Fd: int32(wake), Events: unix.POLLIN})
		wait := unix.NsecToTimespec(max(0, time.Until(until)).Nanoseconds())
		if _, err := unix.Ppoll(files, &wait, nil); err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for probes: %w", err)
		}
		var counter [8]byte
		_, _ = unix.Read(wake, counter[:])
	}
	return nil
}

func (p *Prober) closeAll(stop func() bool) {
	stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Close(p.wake)
	p.wake = -1
	for _, s := range p.sockets {
		s.close()
	}
}

// turn does all that is due and returns what to wait for.
func (p *Prober) turn() ([]unix.PollFd, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	until := now.Add(maxReopen)
	for _, s := range p.sockets {
		p.log(s.ready(now))
		p.log(s.receive(now, func(b []byte) { p.take(s.device, b) }))
	}
	for _, m := range p.targets {
		if m.expire(now) {
			p.verdict(m)
		}
		if m.due(now) {
			p.probe(m)
		}
		if at := m.wakeup(); at.Before(until) {
			until = at
		}
	}
	var files []unix.PollFd
	for _, s := range p.sockets {
		if s.fd >= 0 {
			files = append(files, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
		} else if s.reopen.Before(until) {
			until = s.reopen
		}
	}
	return files, until
}

func (p *Prober) probe(m *measured) {
	now, length := time.Now(), m.nextLength()
	r := request{
		source: m.source, destination: m.destination, port: p.options.Port, length: length,
		sequence: m.send(now, length), clock: uint64(now.Sub(p.start)), sender: p.sender,
	}
	p.log(p.sockets[m.device].send(r.marshal(), now))
}

// nextLength is the length of the next probe: one in a hundred of a path is
// padded to its MTU.
func (m *measured) nextLength() int {
	if m.path == nil || m.sequence%paddedEvery != paddedAt {
		return packetLength
	}
	return min(max(m.path.MTU, packetLength), maxPacket)
}

// take handles a packet that arrived on a device. It counts only if it comes
// from where the probe was sent to, at the address that the probe was sent
// from, carries what the probe carried, and is as long.
func (p *Prober) take(device string, b []byte) {
	now := time.Now()
	a, err := parseAnswer(b, p.options.Port)
	if err != nil || a.sender != p.sender {
		return
	}
	m := p.targets[key{device, a.destination, a.source}]
	if m == nil || !m.sent(a.sequence, p.start.Add(time.Duration(a.clock)), a.length) {
		return
	}
	accepted, changed := m.answer(a.sequence, now)
	if !accepted {
		return
	}
	m.outerFragments = a.outerFragments
	if m.reach != a.reach {
		m.reach = a.reach
		changed = changed || m.state == v1alpha1.PathUp
	}
	if changed {
		p.verdict(m)
	}
}

func (p *Prober) verdict(m *measured) {
	attributes := []any{"device", m.device, "state", m.state, "rtt", m.smoothed}
	if m.path != nil {
		attributes = append(attributes, "cluster", m.path.Cluster, "via", m.path.Via, "link", m.path.Link)
	} else {
		attributes = append(attributes, "node", m.node.Node)
	}
	p.options.Log.Info("path verdict", attributes...)
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *Prober) log(err error) {
	if err != nil {
		p.options.Log.Debug("probing continues later", "error", err)
	}
}

// notifyLoop makes Run look at the targets and its context again.
func (p *Prober) notifyLoop() {
	if p.wake >= 0 {
		_, _ = unix.Write(p.wake, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// Snapshot returns the present results.
func (p *Prober) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s Snapshot
	for _, m := range p.targets {
		if m.path != nil {
			s.Paths = append(s.Paths, PathResult{Target: *m.path, Measurement: m.measurement(),
				OuterFragments: m.outerFragments, LargeLost: m.largeLost()})
			continue
		}
		result := NodeResult{Target: *m.node, Measurement: m.measurement()}
		if m.state == v1alpha1.PathUp {
			result.Reach = m.reach
		}
		s.Nodes = append(s.Nodes, result)
	}
	slices.SortFunc(s.Paths, func(a, b PathResult) int {
		return cmp.Or(cmp.Compare(a.Target.ClusterIndex, b.Target.ClusterIndex), cmp.Compare(a.Target.Link, b.Target.Link))
	})
	slices.SortFunc(s.Nodes, func(a, b NodeResult) int { return strings.Compare(a.Target.Node, b.Target.Node) })
	return s
}

// Changed delivers a value after a verdict or a reach set changed, or a first
// round-trip time came in. Changes coalesce.
func (p *Prober) Changed() <-chan struct{} { return p.changed }
