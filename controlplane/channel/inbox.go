package channel

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
)

// inbox is what one peer has said of its services.
type inbox struct {
	mu       sync.Mutex
	services map[types.NamespacedName]*Service
	// heard are those of which anything was said, deletions too, before the first
	// list; after it, what is not in services does not exist.
	heard map[types.NamespacedName]bool
	known bool
	// endpoints of all services.
	endpoints     int
	epoch, serial uint64
	// refused and why, at most MaxServices.
	refused map[types.NamespacedName]string
}

func newInbox() *inbox {
	return &inbox{
		services: map[types.NamespacedName]*Service{}, heard: map[types.NamespacedName]bool{},
		refused: map[types.NamespacedName]string{},
	}
}

// heardOf is what a message has changed: the services named or, after the first
// list, all of them.
type heardOf struct {
	names []types.NamespacedName
	all   bool
}

// take takes a state, and adds to the answer why it is refused if it is.
func (b *inbox) take(in *channelv1.ServiceState, answer *channelv1.ServiceAck) heardOf {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.acknowledge(answer)
	if !b.follows(in.GetEpoch(), in.GetSerial()) {
		return heardOf{}
	}
	name, err := decodeServiceName(in.GetNamespace(), in.GetName())
	if err != nil {
		return heardOf{} // the peer cannot ask for it, nor we name it
	}
	service, err := decodeService(in.GetService())
	if err == nil {
		err = b.room(name, service)
	}
	if err != nil {
		why := clip(err.Error())
		if len(b.refused) < MaxServices {
			b.refused[name] = why
		}
		if len(answer.Refusals) < MaxServices {
			answer.Refusals = append(answer.Refusals, &channelv1.ServiceRefusal{
				Serial: in.GetSerial(), Namespace: name.Namespace, Name: name.Name, Why: why,
			})
		}
		return heardOf{names: []types.NamespacedName{name}}
	}
	_, was := b.refused[name]
	delete(b.refused, name)
	if !b.put(name, service) && !was {
		return heardOf{}
	}
	return heardOf{names: []types.NamespacedName{name}}
}

// room says why there is none for a service.
func (b *inbox) room(name types.NamespacedName, s *Service) error {
	old, exists := b.services[name]
	_, heard := b.heard[name]
	switch {
	case s == nil && !exists && !b.known && !heard && len(b.heard) >= MaxServices:
		return errors.New("more services are withdrawn than can exist")
	case s == nil:
		return nil
	case !exists && len(b.services) >= MaxServices:
		return fmt.Errorf("%d services are exported to this cluster already, and at most so many are allowed", MaxServices)
	}
	if sum := b.endpoints - old.Endpoints() + s.Endpoints(); sum > MaxEndpoints {
		return fmt.Errorf("with it, %d endpoints would be exported to this cluster; at most %d are allowed in all", sum, MaxEndpoints)
	}
	return nil
}

// put stores a service and reports whether that is news.
func (b *inbox) put(name types.NamespacedName, s *Service) bool {
	old := b.services[name]
	news := !reflect.DeepEqual(old, s)
	if !b.known && !b.heard[name] {
		b.heard[name], news = true, true
	}
	b.endpoints += s.Endpoints() - old.Endpoints()
	if s == nil {
		delete(b.services, name)
	} else {
		b.services[name] = s
	}
	return news
}

// takeList deletes what is not in the list.
func (b *inbox) takeList(in *channelv1.ServiceList, answer *channelv1.ServiceAck) heardOf {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.acknowledge(answer)
	if !b.follows(in.GetEpoch(), in.GetSerial()) {
		return heardOf{}
	}
	named, err := decodeServiceList(in.GetNames())
	if err != nil {
		answer.Refusals = append(answer.Refusals, &channelv1.ServiceRefusal{Serial: in.GetSerial(), Why: err.Error()})
		return heardOf{}
	}
	var out heardOf
	for name := range b.services {
		if !named[name] {
			b.put(name, nil)
			out.names = append(out.names, name)
		}
	}
	for name := range b.refused {
		if !named[name] {
			delete(b.refused, name)
		}
	}
	out.all = !b.known
	b.known = true
	clear(b.heard)
	return out
}

func decodeServiceList(in []*channelv1.ServiceName) (map[types.NamespacedName]bool, error) {
	if len(in) > MaxServices {
		return nil, fmt.Errorf("%d services are listed; at most %d are allowed", len(in), MaxServices)
	}
	named := map[types.NamespacedName]bool{}
	for _, n := range in {
		name, err := decodeServiceName(n.GetNamespace(), n.GetName())
		if err != nil {
			return nil, err
		}
		named[name] = true
	}
	return named, nil
}

// follows takes a message's place in the order, if it is later than the last.
func (b *inbox) follows(epoch, serial uint64) bool {
	if epoch >= maxOrder || serial >= maxOrder || !before(b.epoch, b.serial, epoch, serial) {
		return false
	}
	b.epoch, b.serial = epoch, serial
	return true
}

func (b *inbox) acknowledge(answer *channelv1.ServiceAck) {
	answer.Epoch, answer.Serial = b.epoch, b.serial
}

// get returns a service, nil if there is none. False: nothing was said of it in
// this life of the process, or nothing but what was refused.
func (b *inbox) get(name types.NamespacedName) (*Service, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.services[name]
	_, refused := b.refused[name]
	return s, s != nil || !refused && (b.known || b.heard[name])
}

func (b *inbox) names() []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.services), compareNames)
}

func (b *inbox) refusals() map[types.NamespacedName]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.refused)
}
