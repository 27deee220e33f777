package control

import (
	"context"
	"fmt"
	"sync"

	"github.com/weft-fabric/weft/tools/traffic/stream"
)

const maxSenders = 64

// streams are the flows that this server sends in the background.
type streams struct {
	mu      sync.Mutex
	senders map[uint32]*background
}

type background struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	sent stream.Sent
	err  error
}

func newStreams() *streams { return &streams{senders: map[uint32]*background{}} }

// start begins to send; an earlier flow of that number must have ended.
func (s *streams) start(life context.Context, req stream.SendRequest) (stream.Sent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeEnded()
	if _, known := s.senders[req.Flow]; known {
		return stream.Sent{}, fmt.Errorf("flow %d is being sent already; stop it first", req.Flow)
	}
	if len(s.senders) >= maxSenders {
		return stream.Sent{}, fmt.Errorf("%d flows are being sent already; stop one first", len(s.senders))
	}
	ctx, cancel := context.WithCancel(life)
	b := &background{cancel: cancel, done: make(chan struct{}), sent: stream.Sent{Flow: req.Flow}}
	s.senders[req.Flow] = b
	go func() {
		defer close(b.done)
		defer cancel()
		_, err := stream.Send(ctx, req, b.set)
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}()
	return b.get()
}

// removeEnded keeps the latest results until there are many.
func (s *streams) removeEnded() {
	if len(s.senders) < maxSenders {
		return
	}
	for flow, b := range s.senders {
		select {
		case <-b.done:
			delete(s.senders, flow)
		default:
		}
	}
}

func (s *streams) find(flow uint32) (*background, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.senders[flow]
	if b == nil {
		return nil, fmt.Errorf("flow %d is not being sent here", flow)
	}
	return b, nil
}

func (s *streams) sent(_ context.Context, f Flow) (stream.Sent, error) {
	b, err := s.find(f.Flow)
	if err != nil {
		return stream.Sent{}, err
	}
	return b.get()
}

// stop ends a flow and returns its final count.
func (s *streams) stop(ctx context.Context, f Flow) (stream.Sent, error) {
	b, err := s.find(f.Flow)
	if err != nil {
		return stream.Sent{}, err
	}
	b.cancel()
	select {
	case <-b.done:
	case <-ctx.Done():
		return stream.Sent{}, ctx.Err()
	}
	s.mu.Lock()
	delete(s.senders, f.Flow)
	s.mu.Unlock()
	return b.get()
}

func (b *background) set(sent stream.Sent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = sent
}

func (b *background) get() (stream.Sent, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.err
}
