package agentapi

import (
	"errors"
	"sync"
)

// splices are the running ones.
type splices struct {
	mu   sync.Mutex
	ends map[*spliceEnd]struct{}
}

// enter registers a splice, unless its group has the most it may have.
func (s *splices) enter(p passage, g group, most int) (*spliceEnd, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	same, all, total := 0, 0, totalLimit
	if p.forwarded() {
		total = transitLimit
	}
	for e := range s.ends {
		if e.group == g {
			same++
		}
		if e.passage.forwarded() == p.forwarded() {
			all++
		}
	}
	if same >= most || all >= total {
		return nil, errors.New("too many channels are open; close one first")
	}
	if s.ends == nil {
		s.ends = map[*spliceEnd]struct{}{}
	}
	e := &spliceEnd{all: s, passage: p, group: g, stop: make(chan struct{})}
	s.ends[e] = struct{}{}
	return e, nil
}

// keep ends the splices whose passage is not wanted any more.
func (s *splices) keep(wanted func(passage) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.ends {
		if !wanted(e.passage) {
			e.end()
		}
	}
}
