package channel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// exported is a service with n endpoints.
func exported(n int) *Service {
	s := &Service{
		Created: time.Unix(1700000000, 0).UTC(), Type: ClusterSetIP, Affinity: time.Hour,
		Ports: []ServicePort{{"http", corev1.ProtocolTCP, 80, "kubernetes.io/h2c"}, {"dns", corev1.ProtocolUDP, 53, ""}},
	}
	group := Backends{Ports: []BackendPort{{"http", corev1.ProtocolTCP, 8080}, {"dns", corev1.ProtocolUDP, 5353}}}
	for i := range n {
		group.Endpoints = append(group.Endpoints, Endpoint{
			Address: netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), Ready: i%2 == 0, Serving: true, Terminating: i%2 == 1,
			Zone: "z1", Hostname: "web-0",
		})
	}
	s.Backends = []Backends{group}
	return s
}

// hears waits until an end has heard of a service what ok wants.
func (e *end) hears(from v1alpha1.Identity, name types.NamespacedName, what string, ok func(s *Service, heard bool) bool) {
	e.t.Helper()
	require.Eventually(e.t, func() bool { return ok(e.Service(from, name)) }, patience, 5*time.Millisecond, what)
}

func exists(s *Service, _ bool) bool      { return s != nil }
func gone(s *Service, heard bool) bool    { return s == nil && heard }
func unheard(s *Service, heard bool) bool { return s == nil && !heard }

// A service, its change and its end are heard as they were told, and nothing else
// is.
func TestServices(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.reaches(b)
	// Before b is a peer, and before all is known: no list, so nothing is denied.
	require.True(t, a.SetService(b.id, named("web"), exported(3)))
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	b.hears(a.id, named("web"), "b hears", exists)
	got, _ := b.Service(a.id, named("web"))
	require.Equal(t, exported(3), got)
	_, heard := b.Service(a.id, named("other"))
	require.False(t, heard, "there was no list")
	a.SetServices(b.id, map[types.NamespacedName]*Service{named("web"): exported(4), named("shop"): exported(0)})
	b.hears(a.id, named("other"), "the list comes", gone)
	b.hears(a.id, named("web"), "and the change before it", func(s *Service, _ bool) bool { return s.Endpoints() == 4 })
	require.Equal(t, []types.NamespacedName{named("shop"), named("web")}, b.Services(a.id))
	a.SetService(b.id, named("web"), nil)
	b.hears(a.id, named("web"), "and the end", gone)
	b.hears(a.id, named("shop"), "of one alone", exists)
}

// A change costs one message, however many services there are; many changes of
// one service in a short time cost few.
func TestChangesCostWhatChanges(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	all := map[types.NamespacedName]*Service{}
	for i := range 500 {
		all[named(fmt.Sprintf("s%d", i))] = exported(2)
	}
	a.SetServices(b.id, all)
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	p := a.lookup(b.id)
	// A session over a stream that nobody answers: only what is sent counts.
	s := newSession(p, nil, true)
	require.True(t, p.adopt(s))
	total, more := 0, true
	for more {
		var batch []*channelv1.Envelope
		batch, more = p.outbox.next(s)
		require.LessOrEqual(t, len(batch), batchStates+1)
		total += len(batch)
	}
	require.Equal(t, 501, total, "every service, then the list")
	for i := range 100 {
		a.SetService(b.id, named("s7"), exported(i))
	}
	a.SetServices(b.id, withChange(all, "s7", exported(99)))
	batch, _ := p.outbox.next(s)
	require.Len(t, batch, 1)
	require.Equal(t, "s7", batch[0].GetServiceState().GetName())
	require.Len(t, batch[0].GetServiceState().GetService().GetBackends()[0].GetEndpoints(), 99)
	a.SetService(b.id, named("s8"), nil)
	batch, _ = p.outbox.next(s)
	require.Len(t, batch, 1)
	require.Nil(t, batch[0].GetServiceState().GetService())
	batch, _ = p.outbox.next(s)
	require.Empty(t, batch)
}

func withChange(all map[types.NamespacedName]*Service, name string, s *Service) map[types.NamespacedName]*Service {
	out := map[types.NamespacedName]*Service{}
	for n, service := range all {
		out[n] = service
	}
	out[named(name)] = s
	return out
}

// The same over a real stream, at the size that is allowed: neither the number of
// messages nor their bytes end the session.
func TestAThousandServices(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	all := map[types.NamespacedName]*Service{}
	for i := range MaxServices {
		all[named(fmt.Sprintf("s%d", i))] = exported(MaxEndpoints / MaxServices)
	}
	a.SetServices(b.id, all)
	require.False(t, a.SetService(b.id, named("one-more"), exported(0)))
	a.reaches(b)
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	began := time.Now()
	b.hears(a.id, named("one-more"), "b has heard the list", gone)
	require.Len(t, b.Services(a.id), MaxServices)
	t.Logf("told in %s", time.Since(began))
	since := b.Status(a.id).Since
	a.SetService(b.id, named("s5"), exported(11))
	b.hears(a.id, named("s6"), "the rest stands", exists)
	require.Eventually(t, func() bool { return a.ServiceRefusal(b.id, named("s5")) != "" }, patience, 5*time.Millisecond)
	require.Contains(t, a.ServiceRefusal(b.id, named("s5")), "10001 endpoints")
	require.Len(t, b.RefusedServices(a.id), 1)
	// There is room again: what was refused is tried again.
	a.SetService(b.id, named("s6"), nil)
	b.hears(a.id, named("s5"), "what was refused is taken", func(s *Service, _ bool) bool { return s.Endpoints() == 11 })
	require.Eventually(t, func() bool { return a.ServiceRefusal(b.id, named("s5")) == "" }, patience, 5*time.Millisecond)
	require.Empty(t, b.RefusedServices(a.id))
	require.Equal(t, since, b.Status(a.id).Since, "one session all the time")
}

// The end of a session deletes nothing; a new one tells what has ended meanwhile.
func TestServicesOverSessions(t *testing.T) {
	k := keys(t, 2)
	a, b := newEnd(t, k[0]), newEnd(t, k[1])
	a.reaches(b)
	a.SetServices(b.id, map[types.NamespacedName]*Service{named("web"): exported(1), named("shop"): exported(1)})
	a.knows(b, Snapshot{})
	b.knows(a, Snapshot{})
	b.hears(a.id, named("x"), "b hears all", gone)
	a.stop()
	b.until(a.id, "b sees the end", func(s Status) bool { return !s.Connected })
	require.Len(t, b.Services(a.id), 2, "what was said stands")
	// The new process knows one service at first, and has not seen them all.
	a2 := newEnd(t, k[0])
	a2.epoch = a.epoch - 5000 // its clock went back
	a2.reaches(b)
	a2.SetService(b.id, named("web"), exported(2))
	a2.knows(b, Snapshot{})
	b.hears(a.id, named("web"), "b hears the new process", func(s *Service, _ bool) bool { return s.Endpoints() == 2 })
	b.hears(a.id, named("shop"), "the other one stands", exists)
	a2.SetServices(b.id, map[types.NamespacedName]*Service{named("web"): exported(2)})
	b.hears(a.id, named("shop"), "until a list denies it", gone)
	// Unpeering forgets everything.
	b.RemovePeer(a.id)
	require.True(t, unheard(b.Service(a.id, named("web"))))
}

// sendService sends as a peer that keeps no rules, and returns the answer.
func sendService(t *testing.T, s grpc.BidiStreamingClient[channelv1.Envelope, channelv1.Envelope], e *channelv1.Envelope) *channelv1.ServiceAck {
	t.Helper()
	require.NoError(t, s.Send(e))
	for {
		envelope, err := s.Recv()
		require.NoError(t, err)
		if ack := envelope.GetServiceAck(); ack != nil {
			return ack
		}
	}
}

func stateOf(serial uint64, name string, s *channelv1.Service) *channelv1.Envelope {
	return &channelv1.Envelope{Body: &channelv1.Envelope_ServiceState{ServiceState: &channelv1.ServiceState{
		Epoch: 1, Serial: serial, Namespace: "shop", Name: name, Service: s,
	}}}
}

// Bad states name the offending item and change nothing.
func TestHostileServices(t *testing.T) {
	honest, hostile, s := hostilePair(t)
	require.Empty(t, sendService(t, s, stateOf(1, "web", exported(2).encode())).GetRefusals())
	bad := func(change func(*channelv1.Service)) *channelv1.Service {
		out := exported(2).encode()
		change(out)
		return out
	}
	serial := uint64(1)
	for why, service := range map[string]*channelv1.Service{
		"no time":                bad(func(s *channelv1.Service) { s.Created = 0 }),
		"no time at which":       bad(func(s *channelv1.Service) { s.Created = 1 << 63 }),
		"type 9":                 bad(func(s *channelv1.Service) { s.Type = 9 }),
		"86401 seconds":          bad(func(s *channelv1.Service) { s.ClientIpAffinity = 86401 }),
		"0 ports":                bad(func(s *channelv1.Service) { s.Ports = nil }),
		"is not the only one":    bad(func(s *channelv1.Service) { s.Ports[0].Name = "" }),
		"name \"dns\" is listed": bad(func(s *channelv1.Service) { s.Ports[0].Name = "dns" }),
		"port 0":                 bad(func(s *channelv1.Service) { s.Ports[0].Port = 0 }),
		"port 65536":             bad(func(s *channelv1.Service) { s.Backends[0].Ports[0].Port = 65536 }),
		"no application":         bad(func(s *channelv1.Service) { s.Ports[0].AppProtocol = "a b" }),
		"protocol 7":             bad(func(s *channelv1.Service) { s.Ports[0].Protocol = 7 }),
		"port 80 of TCP": bad(func(s *channelv1.Service) {
			s.Ports = append(s.Ports, &channelv1.ServicePort{Name: "x", Protocol: 1, Port: 80})
		}),
		"no IPv4":            bad(func(s *channelv1.Service) { s.Backends[0].Endpoints[0].Address = "fd00::1" }),
		"is no IPv4 address": bad(func(s *channelv1.Service) { s.Backends[0].Endpoints[0].Address = "10.0.0.1000000000" }),
		"listed twice":       bad(func(s *channelv1.Service) { s.Backends[0].Endpoints[1].Address = "10.244.0.0" }),
		"no host name":       bad(func(s *channelv1.Service) { s.Backends[0].Endpoints[0].Hostname = "a.b" }),
		"no name of a zone":  bad(func(s *channelv1.Service) { s.Backends[0].Endpoints[0].Zone = "a b" }),
		"more than 1000":     exported(MaxServiceEndpoints + 1).encode(),
		"33 groups":          bad(func(s *channelv1.Service) { s.Backends = make([]*channelv1.Backends, 33) }),
	} {
		serial++
		refusals := sendService(t, s, stateOf(serial, "web", service)).GetRefusals()
		require.Len(t, refusals, 1, why)
		require.Contains(t, refusals[0].GetWhy(), why)
		require.Equal(t, serial, refusals[0].GetSerial())
	}
	got, _ := honest.Service(hostile.id, named("web"))
	require.Equal(t, exported(2), got, "what was said well stands")
	// An older message, a name that is none, a list that is too long.
	require.EqualValues(t, serial, sendService(t, s, stateOf(serial, "web", nil)).GetSerial())
	serial++
	require.Empty(t, sendService(t, s, stateOf(serial, "Web", exported(1).encode())).GetRefusals())
	long := &channelv1.ServiceList{Epoch: 1, Serial: serial + 1}
	for i := range MaxServices + 1 {
		long.Names = append(long.Names, &channelv1.ServiceName{Namespace: "shop", Name: fmt.Sprint("s", i)})
	}
	refusals := sendService(t, s, &channelv1.Envelope{Body: &channelv1.Envelope_ServiceList{ServiceList: long}}).GetRefusals()
	require.Contains(t, refusals[0].GetWhy(), "1001 services are listed")
	require.Equal(t, []types.NamespacedName{named("web")}, honest.Services(hostile.id))
	require.True(t, honest.Status(hostile.id).Connected)
}

// Without a list, a peer that withdraws what it never exported fills nothing up.
func TestWithdrawalsAreBounded(t *testing.T) {
	b := newInbox()
	for i := range 3 * MaxServices {
		b.take(stateOf(uint64(i+1), fmt.Sprint("s", i), nil).GetServiceState(), &channelv1.ServiceAck{})
	}
	require.LessOrEqual(t, len(b.heard), MaxServices)
	require.LessOrEqual(t, len(b.refused), MaxServices)
}

// A new process that was told nothing of a service but what it refuses does not
// know that it has ended.
func TestRefusedIsNotGone(t *testing.T) {
	b := newInbox()
	tooMany := exported(MaxServiceEndpoints + 1).encode()
	b.take(stateOf(1, "web", tooMany).GetServiceState(), &channelv1.ServiceAck{})
	list := func(serial uint64, names ...*channelv1.ServiceName) {
		b.takeList(&channelv1.ServiceList{Epoch: 1, Serial: serial, Names: names}, &channelv1.ServiceAck{})
	}
	list(2, &channelv1.ServiceName{Namespace: "shop", Name: "web"})
	require.True(t, unheard(b.get(named("web"))))
	require.True(t, gone(b.get(named("other"))))
	b.take(stateOf(3, "web", exported(1).encode()).GetServiceState(), &channelv1.ServiceAck{})
	b.take(stateOf(4, "web", tooMany).GetServiceState(), &channelv1.ServiceAck{})
	require.True(t, exists(b.get(named("web"))), "what was said well stands")
	b.take(stateOf(5, "web", nil).GetServiceState(), &channelv1.ServiceAck{})
	require.True(t, gone(b.get(named("web"))))
	b.take(stateOf(6, "web", tooMany).GetServiceState(), &channelv1.ServiceAck{})
	list(7)
	require.True(t, gone(b.get(named("web"))))
}

// A peer that claims again and again to have heard later messages does not make
// this side tell everything for ever.
func TestRestartsAreBounded(t *testing.T) {
	o := newOutbox(1)
	s := &session{wake: make(chan struct{}, 1)}
	o.replace(map[types.NamespacedName]*Service{named("web"): exported(1)})
	told := 0
	o.begin(s)
	for range 3 * mostRestarts {
		out, _ := o.next(s)
		told += len(out)
		o.answered(&channelv1.ServiceAck{Epoch: o.epoch + 5, Serial: 1})
	}
	require.Equal(t, 2*(1+mostRestarts), told, "the service and the list, each time")
}
