// Package wait polls until something is so, telling the user what it still
// waits for.
package wait

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// interval between two looks at the API server.
const interval = 500 * time.Millisecond

// Progress takes one line of what is going on.
type Progress func(line string)

// Check looks once. pending is what is still missing, one clause; empty means
// done. An error of one look is not the end: API servers restart. With a clause
// beside it, the error is what is normal for a while: it is told only when the
// time is over.
type Check func(ctx context.Context) (pending string, err error)

// TimeoutError says what was missing when the time was over.
type TimeoutError struct {
	After   time.Duration
	Pending string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("not done after %s: %s", e.After.Round(time.Second), e.Pending)
}

// Until calls check until nothing is pending, for at most limit, and reports
// every change of what is pending.
func Until(ctx context.Context, limit time.Duration, progress Progress, check Check) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	told, last := "", ""
	for {
		pending, err := check(bounded)
		if err == nil && pending == "" {
			return nil
		}
		if bounded.Err() == nil || last == "" {
			last = pending
			if err != nil {
				last = err.Error()
			}
			if line := cmp.Or(pending, last); line != told {
				progress(line)
				told = line
			}
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &TimeoutError{After: limit, Pending: last}
		case <-ticker.C:
		}
	}
}
