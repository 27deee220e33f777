// Package calls opens many new TCP connections to the echo servers behind one
// name, each with a lookup of its own, and says who answered and whom they saw.
package calls

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/traffic/echo"
)

const (
	maxCount    = 100_000
	maxParallel = 256
	// mostErrors that a result quotes.
	mostErrors = 5
)

// Request is a number of calls.
type Request struct {
	// Target is "name:port"; the name is looked up as /etc/resolv.conf says.
	Target string `json:"target"`
	// Count of connections, and how many of them at a time: 20 if zero.
	Count    int `json:"count"`
	Parallel int `json:"parallel,omitempty"`
	// TimeoutMilliseconds of each call with its lookup; 10000 if zero.
	TimeoutMilliseconds int `json:"timeoutMilliseconds,omitempty"`
}

// Result is what became of them.
type Result struct {
	Calls int `json:"calls"`
	// Answered calls: the bytes that were sent came back.
	Answered int `json:"answered"`
	// Servers that answered, by their own addresses, and the clients that they saw.
	Servers map[string]int `json:"servers"`
	Sources map[string]int `json:"sources"`
	// Errors are the first of those that calls failed with.
	Errors []string `json:"errors,omitempty"`
	// Seconds that all took, and milliseconds that the slowest did.
	Seconds             float64 `json:"seconds"`
	SlowestMilliseconds float64 `json:"slowestMilliseconds"`
}

func (r Request) validate() (Request, error) {
	if r.Count < 1 || r.Count > maxCount {
		return r, fmt.Errorf("%d calls cannot be made: ask for 1 to %d", r.Count, maxCount)
	}
	if r.Parallel == 0 {
		r.Parallel = 20
	}
	if r.Parallel < 1 || r.Parallel > maxParallel {
		return r, fmt.Errorf("%d calls at a time cannot be made: ask for 1 to %d", r.Parallel, maxParallel)
	}
	if r.TimeoutMilliseconds <= 0 {
		r.TimeoutMilliseconds = 10_000
	}
	if _, _, err := net.SplitHostPort(r.Target); err != nil {
		return r, fmt.Errorf("read the target: %w", err)
	}
	return r, nil
}

// Run makes the calls. One that fails is no error: the result tells of it.
func Run(ctx context.Context, req Request) (Result, error) {
	req, err := req.validate()
	if err != nil {
		return Result{}, err
	}
	t := tally{Result: Result{Servers: map[string]int{}, Sources: map[string]int{}}}
	start := time.Now()
	var group errgroup.Group
	group.SetLimit(req.Parallel)
	for range req.Count {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			begin := time.Now()
			answer, err := echo.TCPTo(ctx, req.Target, echo.Request{TimeoutMilliseconds: req.TimeoutMilliseconds})
			t.add(answer, err, time.Since(begin))
			return nil
		})
	}
	_ = group.Wait()
	t.Seconds = time.Since(start).Seconds()
	return t.Result, ctx.Err()
}

// tally counts.
type tally struct {
	mu sync.Mutex
	Result
}

func (t *tally) add(answer echo.Result, err error, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Calls++
	t.SlowestMilliseconds = max(t.SlowestMilliseconds, float64(took.Microseconds())/1000)
	if err != nil {
		if len(t.Errors) < mostErrors {
			t.Errors = append(t.Errors, err.Error())
		}
		return
	}
	t.Answered++
	t.Servers[answer.Server.Addr().String()]++
	t.Sources[answer.ObservedSource.Addr().String()]++
}
