package channel

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
)

const (
	// batchStates and batchBytes bound the states that are sent before the next
	// look at what else there is to say.
	batchStates = 128
	batchBytes  = 256 << 10
	// mostRestarts of one session: a peer that keeps the order asks for one.
	mostRestarts = 4
)

// outbox is what one peer is told of services. A change costs one message,
// however many services there are; changes of one service that come faster than
// they are sent become one.
type outbox struct {
	mu sync.Mutex
	// services that exist; known once they are all there.
	services map[types.NamespacedName]*Service
	known    bool
	epoch    uint64
	// serial of the last message: messages are numbered as they are sent, so that
	// their order is that of the stream.
	serial uint64
	// session that is told, nil if there is none, and for it: what is to be sent,
	// in order, and whether the list has been.
	session *session
	queue   []types.NamespacedName
	queued  map[types.NamespacedName]bool
	listed  bool
	// restarts that this session has asked for.
	restarts int
	// refused by the peer, until it takes them.
	refused map[types.NamespacedName]refusal
}

// refusal is why a peer has not taken a service. It is an answer to serial;
// unanswered, the service has been or will be sent once more.
type refusal struct {
	why      string
	serial   uint64
	answered bool
}

func newOutbox(epoch uint64) *outbox {
	return &outbox{
		services: map[types.NamespacedName]*Service{}, epoch: epoch,
		queued: map[types.NamespacedName]bool{}, refused: map[types.NamespacedName]refusal{},
	}
}

// set changes one service, or deletes it (nil). False: there is no room for it.
func (o *outbox) set(name types.NamespacedName, s *Service) bool {
	o.mu.Lock()
	ok := o.put(name, s)
	session := o.session
	o.mu.Unlock()
	session.wakeServices()
	return ok
}

// replace makes services all that there is. Those for which there is no room are
// left out.
func (o *outbox) replace(services map[types.NamespacedName]*Service) {
	o.mu.Lock()
	for name := range o.services {
		if services[name] == nil {
			o.put(name, nil)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(services), compareNames) {
		o.put(name, services[name])
	}
	o.known = true
	session := o.session
	o.mu.Unlock()
	session.wakeServices()
}

// forget withdraws everything, and says nothing of what there is.
func (o *outbox) forget() {
	o.replace(nil)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = false
}

func (o *outbox) put(name types.NamespacedName, s *Service) bool {
	before, exists := o.services[name]
	switch {
	case s == nil && !exists:
		return true
	case s == nil:
		delete(o.services, name)
		delete(o.refused, name)
	case !exists && len(o.services) >= MaxServices:
		return false
	case exists && reflect.DeepEqual(before, s):
		return true
	default:
		o.services[name] = s
	}
	o.enqueue(name)
	return true
}

// enqueue has one service told, if there is somebody to tell.
func (o *outbox) enqueue(name types.NamespacedName) {
	if o.session != nil && !o.queued[name] {
		o.queued[name] = true
		o.queue = append(o.queue, name)
	}
}

// begin has everything told to a new session, which has to be woken, then the
// list.
func (o *outbox) begin(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.session, o.restarts = s, 0
	o.restart()
}

func (o *outbox) restart() {
	o.queue = slices.SortedFunc(maps.Keys(o.services), compareNames)
	clear(o.queued)
	for _, name := range o.queue {
		o.queued[name] = true
	}
	for name, r := range o.refused {
		o.refused[name] = refusal{why: r.why}
	}
	o.listed = false
}

// end forgets a session. What it was told stands.
func (o *outbox) end(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session == s {
		o.session, o.queue = nil, nil
		clear(o.queued)
	}
}

// next takes what is to be sent now. True: there is more.
func (o *outbox) next(s *session) ([]*channelv1.Envelope, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.session != s {
		return nil, false
	}
	var out []*channelv1.Envelope
	for bytes := 0; len(o.queue) > 0; {
		if len(out) == batchStates || bytes >= batchBytes {
			return out, true
		}
		name := o.queue[0]
		o.queue = o.queue[1:]
		delete(o.queued, name)
		o.serial++
		if r, ok := o.refused[name]; ok {
			o.refused[name] = refusal{why: r.why, serial: o.serial}
		}
		envelope := &channelv1.Envelope{Body: &channelv1.Envelope_ServiceState{ServiceState: &channelv1.ServiceState{
			Epoch: o.epoch, Serial: o.serial, Namespace: name.Namespace, Name: name.Name, Service: o.services[name].encode(),
		}}}
		bytes += proto.Size(envelope)
		out = append(out, envelope)
	}
	o.queue = nil
	if o.known && !o.listed {
		o.listed = true
		out = append(out, o.list())
	}
	return out, false
}

func (o *outbox) list() *channelv1.Envelope {
	o.serial++
	list := &channelv1.ServiceList{Epoch: o.epoch, Serial: o.serial}
	for _, name := range slices.SortedFunc(maps.Keys(o.services), compareNames) {
		list.Names = append(list.Names, &channelv1.ServiceName{Namespace: name.Namespace, Name: name.Name})
	}
	return &channelv1.Envelope{Body: &channelv1.Envelope_ServiceList{ServiceList: list}}
}

// answered takes the peer's answer and returns the services of which it says
// something new. One service that was refused is tried again when the peer has
// taken something: there may be room now.
func (o *outbox) answered(ack *channelv1.ServiceAck) []types.NamespacedName {
	o.mu.Lock()
	var changed []types.NamespacedName
	again := false
	switch {
	case before(o.epoch, o.serial, ack.GetEpoch(), ack.GetSerial()) && ack.GetEpoch() < maxOrder-1 && o.restarts < mostRestarts:
		// The peer remembers messages that order after ours (our clock went back over
		// a restart), and drops ours.
		o.epoch = ack.GetEpoch() + 1
		o.restarts++
		o.restart()
		again = true
	case ack.GetEpoch() == o.epoch:
		changed = o.takeAnswers(ack)
		again = len(o.queue) > 0
	}
	session := o.session
	o.mu.Unlock()
	if again {
		session.wakeServices()
	}
	return changed
}

func (o *outbox) takeAnswers(ack *channelv1.ServiceAck) []types.NamespacedName {
	var changed []types.NamespacedName
	now := map[types.NamespacedName]bool{}
	for _, r := range ack.GetRefusals() {
		name := types.NamespacedName{Namespace: r.GetNamespace(), Name: r.GetName()}
		if o.services[name] == nil {
			continue
		}
		now[name] = true
		why := cmp.Or(clip(r.GetWhy()), "no reason is given")
		if o.refused[name].why != why {
			changed = append(changed, name)
		}
		o.refused[name] = refusal{why: why, serial: r.GetSerial(), answered: true}
	}
	retried := len(now) > 0
	for name, r := range o.refused {
		switch {
		case !r.answered && r.serial != 0 && r.serial <= ack.GetSerial() && !now[name]:
			delete(o.refused, name)
			changed = append(changed, name)
		case r.answered && !retried:
			retried = true
			o.refused[name] = refusal{why: r.why}
			o.enqueue(name)
		}
	}
	return changed
}

func (o *outbox) refusal(name types.NamespacedName) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused[name].why
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
