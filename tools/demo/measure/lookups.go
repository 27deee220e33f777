package measure

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/control"
	"github.com/weft-fabric/weft/tools/traffic/lookup"
)

const (
	// lookupEvery is the time from one look-up in a pod to the next, which does not
	// wait for the end of the first.
	lookupEvery = 200 * time.Millisecond
	// lookupsAtOnce in a pod; while all of them wait, none is added.
	lookupsAtOnce = 25
)

// LookedUp is one look-up in a pod.
type LookedUp struct {
	From   testbed.Host
	At     time.Time
	Result lookup.Result
	// Err: nobody answered.
	Err error
}

// Lookup resolves a name in a pod, as programs there do.
func Lookup(ctx context.Context, from testbed.Host, question lookup.Request) LookedUp {
	one := LookedUp{From: from, At: time.Now()}
	one.Result, one.Err = testbed.Call[lookup.Result](ctx, from, control.PathLookup, question)
	return one
}

// Took is how long the pod waited for an answer.
func (l LookedUp) Took() time.Duration {
	return time.Duration(l.Result.Milliseconds * float64(time.Millisecond))
}

// Failed says whether it is not known what the name stands for, and whether there
// is such a name at all.
func (l LookedUp) Failed() bool { return l.Err != nil || l.Result.Code == "SERVFAIL" }

// Resolved says whether the name has this address and no other.
func (l LookedUp) Resolved(want netip.Addr) bool {
	return l.Err == nil && l.Result.Code == "NOERROR" && slices.Equal(l.Result.Records, []string{want.String()})
}

func (l LookedUp) String() string {
	text := fmt.Sprintf("%s in %s: ", l.At.Format("15:04:05.000"), l.From)
	if l.Err != nil {
		return text + l.Err.Error()
	}
	return text + fmt.Sprintf("%s %v after %.2f s", l.Result.Code, l.Result.Records, l.Took().Seconds())
}

// LookOn looks the service's name up in a pod again and again until finish, which
// waits for the last answers and returns all.
func LookOn(ctx context.Context, from testbed.Host) (finish func() []LookedUp) {
	starting, stop := context.WithCancel(ctx)
	var all []LookedUp
	var mu sync.Mutex
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(lookupEvery)
		defer tick.Stop()
		for slots := make(chan struct{}, lookupsAtOnce); starting.Err() == nil; {
			slots <- struct{}{}
			running.Go(func() {
				one := Lookup(ctx, from, lookup.Request{Name: testbed.ServiceDomain})
				<-slots
				mu.Lock()
				defer mu.Unlock()
				all = append(all, one)
			})
			select {
			case <-starting.Done():
			case <-tick.C:
			}
		}
	})
	return func() []LookedUp {
		stop()
		running.Wait()
		return all
	}
}
