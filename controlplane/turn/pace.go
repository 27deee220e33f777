package turn

import (
	"reflect"
	"time"

	"golang.org/x/time/rate"
)

// Paced is what a peer says, taken no more often than it may change. Of what it
// says faster, the newest is taken, later.
type Paced[T any] struct {
	every time.Duration
	limit *rate.Limiter
	taken T
}

// NewPaced returns what a peer says that may change once in every, and in a burst
// of so many changes. Until it says anything, the zero T is what it has said.
func NewPaced[T any](every time.Duration, burst int) Paced[T] {
	return Paced[T]{every: every, limit: rate.NewLimiter(rate.Every(every), burst)}
}

// Taken returns what was taken last.
func (p *Paced[T]) Taken() T { return p.taken }

// Take returns what to go by now and, if that is not what the peer said last, how
// long to wait with it.
func (p *Paced[T]) Take(said T, now time.Time) (T, time.Duration) {
	if reflect.DeepEqual(said, p.taken) {
		return p.taken, 0
	}
	if !p.limit.AllowN(now, 1) {
		return p.taken, p.every
	}
	p.taken = said
	return said, 0
}
