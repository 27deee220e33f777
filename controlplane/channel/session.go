package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
)

const (
	// A peer may send this many messages a second, and a burst of them.
	messagesPerSecond, messageBurst = 10, 50
	// So many bytes a second are taken, after a burst of that many: what is beyond
	// waits, since the largest snapshots cost some time to check.
	bytesPerSecond, byteBurst = 1 << 20, 2 * maxMessage
	// Messages about services are many and small: they are bounded by their bytes
	// alone, of which each counts as so many at least.
	serviceBytes = 256
	// sendPause is the least time between two of our snapshots: changes that come
	// in quick succession become one.
	sendPause = 50 * time.Millisecond
)

// stream is either end of the gRPC stream.
type stream interface {
	Send(*channelv1.Envelope) error
	Recv() (*channelv1.Envelope, error)
}

// session is one greeted stream. One goroutine reads, one writes; what is to be
// written is a set of flags, so a peer that does not read costs no memory.
type session struct {
	peer   *peer
	stream stream
	dialed bool
	// route that it was dialed over.
	route Route

	once   sync.Once
	done   chan struct{}
	reason error

	mu         sync.Mutex
	wake       chan struct{}
	snapshot   bool
	services   bool
	ack        *channelv1.Ack
	serviceAck *channelv1.ServiceAck
	goodbye    bool
	goodbyeAck bool
	// farewell is closed when the peer has answered our goodbye.
	farewell     chan struct{}
	farewellOnce sync.Once
}

func newSession(p *peer, s stream, dialed bool) *session {
	return &session{
		peer: p, stream: s, dialed: dialed, snapshot: true,
		done: make(chan struct{}), farewell: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// run exchanges messages until either end stops or ctx ends.
func (s *session) run(ctx context.Context) error {
	go s.read()
	go s.write()
	select {
	case <-ctx.Done():
		s.end(errors.New("the connection broke off"))
	case <-s.done:
	}
	s.peer.release(s, s.reason)
	return s.reason
}

func (s *session) end(reason error) {
	s.once.Do(func() {
		s.reason = reason
		close(s.done)
	})
}

func (s *session) read() {
	limiter := rate.NewLimiter(messagesPerSecond, messageBurst)
	bytes := rate.NewLimiter(bytesPerSecond, byteBurst)
	for {
		envelope, err := s.stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("the peer ended the channel")
		}
		if err != nil {
			s.end(err)
			return
		}
		size := proto.Size(envelope)
		if aboutServices(envelope) {
			size = max(size, serviceBytes)
		} else if !limiter.Allow() {
			s.end(fmt.Errorf("the peer sends more than %d messages a second", messagesPerSecond))
			return
		}
		if !s.pace(bytes, size) {
			return
		}
		s.take(envelope)
	}
}

func aboutServices(envelope *channelv1.Envelope) bool {
	switch envelope.GetBody().(type) {
	case *channelv1.Envelope_ServiceState, *channelv1.Envelope_ServiceList, *channelv1.Envelope_ServiceAck:
		return true
	}
	return false
}

// pace waits until the limiter has room for n bytes, at most its burst. False
// if the session ended.
func (s *session) pace(limiter *rate.Limiter, n int) bool {
	timer := time.NewTimer(limiter.ReserveN(time.Now(), n).Delay())
	defer timer.Stop()
	select {
	case <-s.done:
		return false
	case <-timer.C:
		return true
	}
}

func (s *session) take(envelope *channelv1.Envelope) {
	switch body := envelope.GetBody().(type) {
	case *channelv1.Envelope_Snapshot:
		ack := s.peer.hear(body.Snapshot)
		s.set(func() { s.ack = ack })
	case *channelv1.Envelope_Ack:
		if s.peer.heard(body.Ack) {
			s.wakeSnapshot()
		}
	case *channelv1.Envelope_ServiceState:
		s.answerService(func(answer *channelv1.ServiceAck) { s.peer.hearState(body.ServiceState, answer) })
	case *channelv1.Envelope_ServiceList:
		s.answerService(func(answer *channelv1.ServiceAck) { s.peer.hearList(body.ServiceList, answer) })
	case *channelv1.Envelope_ServiceAck:
		s.peer.heardServiceAck(body.ServiceAck)
	case *channelv1.Envelope_Goodbye:
		s.peer.heardGoodbye()
		s.set(func() { s.goodbyeAck = true })
	case *channelv1.Envelope_GoodbyeAck:
		s.farewellOnce.Do(func() { close(s.farewell) })
	}
	// Anything else is from a newer release: ignored.
}

// answerService makes one answer of all that are not sent yet.
func (s *session) answerService(hear func(*channelv1.ServiceAck)) {
	s.mu.Lock()
	answer := s.serviceAck
	s.serviceAck = nil
	s.mu.Unlock()
	if answer == nil {
		answer = &channelv1.ServiceAck{}
	}
	hear(answer)
	s.set(func() { s.serviceAck = answer }) // only the reader makes answers
}

// wakeServices has a session look at what there is to be told of services; nil
// does not.
func (s *session) wakeServices() {
	if s != nil {
		s.set(func() { s.services = true })
	}
}

func (s *session) wakeSnapshot() { s.set(func() { s.snapshot = true }) }
func (s *session) wakeGoodbye()  { s.set(func() { s.goodbye = true }) }

func (s *session) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	signal(s.wake)
}

func (s *session) write() {
	for {
		for _, envelope := range s.pending() {
			if err := s.stream.Send(envelope); err != nil {
				// Recv has the better error; this one only says that the stream is over.
				return
			}
		}
		pause := time.NewTimer(sendPause)
		select {
		case <-s.done:
			pause.Stop()
			return
		case <-pause.C:
		}
		select {
		case <-s.done:
			return
		case <-s.wake:
		}
	}
}

// pending takes what is to be sent.
func (s *session) pending() []*channelv1.Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*channelv1.Envelope
	if s.ack != nil {
		out = append(out, &channelv1.Envelope{Body: &channelv1.Envelope_Ack{Ack: s.ack}})
	}
	if s.snapshot {
		out = append(out, &channelv1.Envelope{Body: &channelv1.Envelope_Snapshot{Snapshot: s.peer.say()}})
	}
	if s.serviceAck != nil {
		out = append(out, &channelv1.Envelope{Body: &channelv1.Envelope_ServiceAck{ServiceAck: s.serviceAck}})
	}
	if s.services {
		states, more := s.peer.outbox.next(s)
		out = append(out, states...)
		if s.services = more; more {
			signal(s.wake)
		}
	}
	if s.goodbyeAck {
		out = append(out, &channelv1.Envelope{Body: &channelv1.Envelope_GoodbyeAck{GoodbyeAck: &channelv1.GoodbyeAck{}}})
	}
	if s.goodbye {
		out = append(out, &channelv1.Envelope{Body: &channelv1.Envelope_Goodbye{Goodbye: &channelv1.Goodbye{}}})
	}
	s.ack, s.serviceAck, s.snapshot, s.goodbyeAck, s.goodbye = nil, nil, false, false, false
	return out
}
