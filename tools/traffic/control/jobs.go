package control

import (
	"context"
	"fmt"
	"sync"
)

// maxJobs of a kind that a server remembers.
const maxJobs = 64

// jobs are what this server does in the background, by number. Report is what
// one of them tells of itself.
type jobs[Report any] struct {
	what string

	mu      sync.Mutex
	running map[uint32]*job[Report]
}

type job[Report any] struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	report Report
	err    error
}

func newJobs[Report any](what string) *jobs[Report] {
	return &jobs[Report]{what: what, running: map[uint32]*job[Report]{}}
}

// start begins a job, which lives as long as life; an earlier one of that
// number must have ended.
func (s *jobs[Report]) start(life context.Context, number uint32, run func(context.Context, func(Report)) (Report, error)) (Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none Report
	s.removeEnded()
	if _, known := s.running[number]; known {
		return none, fmt.Errorf("%s %d runs already; stop it first", s.what, number)
	}
	if len(s.running) >= maxJobs {
		return none, fmt.Errorf("%d of %s run already; stop one first", len(s.running), s.what)
	}
	ctx, cancel := context.WithCancel(life)
	j := &job[Report]{cancel: cancel, done: make(chan struct{})}
	s.running[number] = j
	go func() {
		defer close(j.done)
		defer cancel()
		_, err := run(ctx, j.set)
		j.mu.Lock()
		j.err = err
		j.mu.Unlock()
	}()
	return j.get()
}

// removeEnded keeps the latest results until there are many.
func (s *jobs[Report]) removeEnded() {
	if len(s.running) < maxJobs {
		return
	}
	for number, j := range s.running {
		select {
		case <-j.done:
			delete(s.running, number)
		default:
		}
	}
}

func (s *jobs[Report]) find(number uint32) (*job[Report], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.running[number]
	if j == nil {
		return nil, fmt.Errorf("%s %d does not run here", s.what, number)
	}
	return j, nil
}

func (s *jobs[Report]) report(_ context.Context, f Flow) (Report, error) {
	j, err := s.find(f.Flow)
	if err != nil {
		var none Report
		return none, err
	}
	return j.get()
}

// stop ends a job and returns its last report.
func (s *jobs[Report]) stop(ctx context.Context, f Flow) (Report, error) {
	var none Report
	j, err := s.find(f.Flow)
	if err != nil {
		return none, err
	}
	j.cancel()
	select {
	case <-j.done:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	s.mu.Lock()
	delete(s.running, f.Flow)
	s.mu.Unlock()
	return j.get()
}

func (j *job[Report]) set(report Report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report = report
}

func (j *job[Report]) get() (Report, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.report, j.err
}
