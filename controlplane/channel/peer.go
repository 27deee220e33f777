package channel

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// peer is one neighbor: what we say, what it said, and the stream between us,
// if there is one. Its lock is never held while anything blocks.
type peer struct {
	manager *Manager
	id      v1alpha1.Identity
	cancel  context.CancelFunc

	mu     sync.Mutex
	config Peer
	// epoch and serial name the present config.Say.
	epoch, serial uint64
	current       *session
	// ended is signalled when the current session is gone, poked when dialing
	// should not wait any longer.
	ended, poked chan struct{}
	since        time.Time
	problem      string
	left         bool

	said                  Snapshot
	saidEpoch, saidSerial uint64
	refused, peerRefused  string
	leftOut               string
	acked                 bool

	// What the peer says of its services, and is told of ours.
	inbox  *inbox
	outbox *outbox
}

// newPeer is called with the manager's lock held.
func newPeer(m *Manager, p Peer, cancel context.CancelFunc) *peer {
	return &peer{
		manager: m, id: p.Identity, cancel: cancel, config: p, epoch: m.epoch, serial: 1,
		ended: make(chan struct{}, 1), poked: make(chan struct{}, 1),
		inbox: newInbox(), outbox: m.outboxLocked(p.Identity),
	}
}

func (p *peer) set(config Peer) {
	p.mu.Lock()
	changed := !reflect.DeepEqual(p.config.Say, config.Say)
	moved := !reflect.DeepEqual(p.config.Routes, config.Routes)
	p.config = config
	if changed {
		p.serial++
		p.acked = false
	}
	current := p.current
	p.mu.Unlock()
	if changed && current != nil {
		current.wakeSnapshot()
	}
	if moved {
		signal(p.poked)
	}
}

func (p *peer) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{
		Connected: p.current != nil, Since: p.since, Problem: p.problem, Left: p.left,
		Said: p.said, Refused: p.refused, LeftOut: p.leftOut, PeerRefused: p.peerRefused,
	}
	if p.current != nil {
		s.Dialed, s.Route, s.Acknowledged, s.Problem = p.current.dialed, p.current.route, p.acked, ""
	}
	return s
}

func (p *peer) markLeft() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = p.current == nil
}

// adopt makes a greeted session the current one. Of two sessions dialed by the
// same end, the newer stands (the older is a dead one that was not noticed
// yet); of two dialed by different ends, the one of the lower identity: both
// ends come to the same answer without talking.
func (p *peer) adopt(s *session) bool {
	p.mu.Lock()
	old := p.current
	lowerIsUs := p.manager.options.Self < p.id
	if old != nil && old.dialed != s.dialed && s.dialed != lowerIsUs {
		p.mu.Unlock()
		return false
	}
	p.current, p.left, p.problem = s, false, ""
	p.since = p.manager.options.Now()
	p.acked = false
	p.outbox.begin(s) // under the lock: the current session is the one that is told
	p.mu.Unlock()
	if old != nil {
		old.end(errors.New("another stream of the same pair took its place"))
	}
	s.wakeServices()
	p.changed()
	return true
}

// release ends a session's time as the current one.
func (p *peer) release(s *session, reason error) {
	p.mu.Lock()
	was := p.current == s
	if was {
		p.current = nil
		p.since = p.manager.options.Now()
		p.problem = clip(reason.Error()) // the text of a gRPC status is the peer's
	}
	p.mu.Unlock()
	p.outbox.end(s)
	if was {
		signal(p.ended)
		p.changed()
	}
}

func (p *peer) end(reason error) {
	p.mu.Lock()
	current := p.current
	p.mu.Unlock()
	if current != nil {
		current.end(reason)
	}
}

func (p *peer) goodbye(ctx context.Context) error {
	p.mu.Lock()
	current := p.current
	p.mu.Unlock()
	if current == nil {
		return errors.New("the channel is not up")
	}
	current.wakeGoodbye()
	select {
	case <-current.farewell:
		return nil
	case <-current.done:
		return errors.New("the channel ended before the peer answered")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// say returns our snapshot in wire form.
func (p *peer) say() *channelv1.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config.Say.encode(p.epoch, p.serial)
}

// hear takes a snapshot of the peer and returns the answer to it.
func (p *peer) hear(in *channelv1.Snapshot) *channelv1.Ack {
	p.mu.Lock()
	last := p.said
	p.mu.Unlock()
	decoded, err := decode(in, p.id, last)
	p.mu.Lock()
	switch {
	case before(in.GetEpoch(), in.GetSerial(), p.saidEpoch, p.saidSerial):
		ack := &channelv1.Ack{Epoch: p.saidEpoch, Serial: p.saidSerial, Refused: "a newer snapshot was taken already"}
		p.mu.Unlock()
		return ack
	case err != nil:
		p.refused = err.Error()
	default:
		p.said, p.refused, p.leftOut = p.said.merge(decoded.Snapshot), "", summary(decoded.leftOut)
		p.saidEpoch, p.saidSerial = in.GetEpoch(), in.GetSerial()
	}
	ack := &channelv1.Ack{Epoch: p.saidEpoch, Serial: p.saidSerial, Refused: p.refused}
	p.mu.Unlock()
	p.changed()
	return ack
}

// heard takes the peer's answer to our snapshot. It returns true if the
// snapshot must be sent again: the peer remembers one of ours that orders after
// it (our clock went back over a restart), so ours needs a later epoch.
func (p *peer) heard(ack *channelv1.Ack) bool {
	p.mu.Lock()
	again := false
	p.peerRefused = clip(ack.GetRefused())
	switch {
	case ack.GetEpoch() == p.epoch && ack.GetSerial() == p.serial:
		p.acked = ack.GetRefused() == ""
	case before(p.epoch, p.serial, ack.GetEpoch(), ack.GetSerial()) && ack.GetEpoch() < maxOrder-1:
		p.epoch, again = ack.GetEpoch()+1, true
	}
	p.mu.Unlock()
	p.changed()
	return again
}

func (p *peer) heardGoodbye() {
	p.mu.Lock()
	p.left = true
	p.mu.Unlock()
	p.changed()
}

func (p *peer) failed(err error) {
	p.mu.Lock()
	changed := p.current == nil && p.problem != err.Error()
	if changed {
		p.problem = err.Error()
	}
	p.mu.Unlock()
	if changed {
		p.changed()
	}
}

func (p *peer) changed() { p.manager.options.Changed(p.id) }

func before(epoch, serial, otherEpoch, otherSerial uint64) bool {
	return epoch < otherEpoch || epoch == otherEpoch && serial < otherSerial
}

// clip bounds text that a peer chose and keeps what a terminal or the API
// server would not take as it is (control characters, half a character) out of
// conditions and logs.
func clip(text string) string {
	const most = 300 // bytes
	cut := len(text) > most
	if cut {
		text = text[:most]
	}
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if cut {
		text += "..."
	}
	return text
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
