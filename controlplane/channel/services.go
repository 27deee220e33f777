package channel

import (
	"k8s.io/apimachinery/pkg/types"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// ServiceEvent says what has changed of a peer's services: those named, or any.
type ServiceEvent struct {
	// Heard: what the peer said has. Else: what it answered to ours.
	Heard bool
	Names []types.NamespacedName
	All   bool
}

// SetServices makes services all that a peer is told of. Before it is called for
// a peer, that is told of no list, and so deletes nothing. It need not be a peer
// yet; with nil, what was said for it is forgotten.
func (m *Manager) SetServices(id v1alpha1.Identity, services map[types.NamespacedName]*Service) {
	if services != nil {
		m.outbox(id).replace(services)
		return
	}
	m.mu.Lock()
	o := m.outboxes[id]
	if m.peers[id] == nil {
		delete(m.outboxes, id)
	}
	m.mu.Unlock()
	if o != nil {
		o.forget()
	}
}

// SetService changes one service that a peer is told of, or withdraws it (nil).
// False: the peer is told of MaxServices already.
func (m *Manager) SetService(id v1alpha1.Identity, name types.NamespacedName, s *Service) bool {
	return m.outbox(id).set(name, s)
}

// outbox of a peer, or of who may become one.
func (m *Manager) outbox(id v1alpha1.Identity) *outbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outboxLocked(id)
}

func (m *Manager) outboxLocked(id v1alpha1.Identity) *outbox {
	o := m.outboxes[id]
	if o == nil {
		o = newOutbox(m.epoch)
		m.outboxes[id] = o
	}
	return o
}

// Service returns what a peer says of a service, nil if it exports none of that
// name. False: it has not said anything of it in this life of the process, or
// nothing that is not refused: what was known before stands.
func (m *Manager) Service(id v1alpha1.Identity, name types.NamespacedName) (*Service, bool) {
	p := m.lookup(id)
	if p == nil {
		return nil, false
	}
	return p.inbox.get(name)
}

// Services names what a peer has said that it exports.
func (m *Manager) Services(id v1alpha1.Identity) []types.NamespacedName {
	if p := m.lookup(id); p != nil {
		return p.inbox.names()
	}
	return nil
}

// RefusedServices names what was refused of a peer's services, and why.
func (m *Manager) RefusedServices(id v1alpha1.Identity) map[types.NamespacedName]string {
	if p := m.lookup(id); p != nil {
		return p.inbox.refusals()
	}
	return nil
}

// ServiceRefusal is why a peer has refused one of ours, empty if it has not.
func (m *Manager) ServiceRefusal(id v1alpha1.Identity, name types.NamespacedName) string {
	m.mu.Lock()
	o := m.outboxes[id]
	m.mu.Unlock()
	if o == nil {
		return ""
	}
	return o.refusal(name)
}

// hearState and hearList take messages of the peer, and add to the answer.
func (p *peer) hearState(in *channelv1.ServiceState, answer *channelv1.ServiceAck) {
	p.servicesHeard(p.inbox.take(in, answer))
}

func (p *peer) hearList(in *channelv1.ServiceList, answer *channelv1.ServiceAck) {
	p.servicesHeard(p.inbox.takeList(in, answer))
}

func (p *peer) servicesHeard(h heardOf) {
	if notify := p.manager.options.ServicesChanged; notify != nil && (h.all || len(h.names) > 0) {
		notify(p.id, ServiceEvent{Heard: true, Names: h.names, All: h.all})
	}
}

func (p *peer) heardServiceAck(ack *channelv1.ServiceAck) {
	names := p.outbox.answered(ack)
	if notify := p.manager.options.ServicesChanged; notify != nil && len(names) > 0 {
		notify(p.id, ServiceEvent{Names: names})
	}
}
