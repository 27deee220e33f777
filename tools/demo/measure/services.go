package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/weft-fabric/weft/tools/demo/testbed"
	"github.com/weft-fabric/weft/tools/traffic/calls"
	"github.com/weft-fabric/weft/tools/traffic/control"
)

// Caller is a host with its address as the servers of a service should see it.
type Caller struct {
	testbed.Host
	Source netip.Addr
}

// NewCaller looks up how the cluster that exports a service sees a host.
func NewCaller(ctx context.Context, host testbed.Host, exporter *testbed.Cluster) (Caller, error) {
	source, err := exporter.Remap(ctx, host.Cluster.Name, host.Address)
	return Caller{Host: host, Source: source}, err
}

// Call opens new TCP connections to the service's name; backends are the servers'
// own addresses.
func (c Caller) Call(ctx context.Context, backends []netip.Addr, count int) (CallReport, error) {
	return c.CallAt(ctx, testbed.ServiceDomain, backends, count)
}

// CallAt is Call where the service is known by another name, or by its address.
func (c Caller) CallAt(ctx context.Context, service string, backends []netip.Addr, count int) (CallReport, error) {
	report := CallReport{Caller: c, Backends: backends}
	target := fmt.Sprintf("%s:%d", service, control.DefaultBasePort+control.EchoOffset)
	var err error
	report.Result, err = testbed.Call[calls.Result](ctx, c.Host, control.PathCalls, calls.Request{Target: target, Count: count, Parallel: 40})
	if err != nil {
		return report, fmt.Errorf("call %s: %w", target, err)
	}
	return report, nil
}

// CallReport is what became of calls.
type CallReport struct {
	Caller
	Backends []netip.Addr
	// Leaving servers were backends a moment ago and may answer still.
	Leaving []netip.Addr
	calls.Result
}

// settleCalls are opened at a time until kube-proxy has followed the slices, which
// it does once a second.
const settleCalls = 50

// Settle calls again and again until every backend and nobody who is leaving
// answers, and sums up. A call that is not answered ends it: backends come and go
// without loss.
func (c Caller) Settle(ctx context.Context, backends, leaving []netip.Addr, limit time.Duration) (CallReport, error) {
	sum := CallReport{}
	for end := time.Now().Add(limit); ; {
		round, err := c.Call(ctx, backends, settleCalls)
		if err != nil {
			return sum, err
		}
		sum.Add(round)
		sum.Leaving = leaving
		if round.OK() || sum.Answered < sum.Calls || time.Now().After(end) {
			return sum, nil
		}
	}
}

// Recover calls again and again until every call of a round is answered, by every
// backend, and returns that round, or the last one.
func (c Caller) Recover(ctx context.Context, backends []netip.Addr, limit time.Duration) (CallReport, error) {
	for end := time.Now().Add(limit); ; {
		round, err := c.Call(ctx, backends, settleCalls)
		if err != nil || round.OK() || time.Now().After(end) {
			return round, err
		}
	}
}

// OK says whether every call was answered, and every backend answered some and
// nobody else any, but for those who are leaving.
func (r CallReport) OK() bool {
	known := map[string]bool{}
	for _, b := range r.Leaving {
		known[b.String()] = true
	}
	for _, b := range r.Backends {
		known[b.String()] = true
		if r.Servers[b.String()] == 0 {
			return false
		}
	}
	for server := range r.Servers {
		if !known[server] {
			return false
		}
	}
	return r.Calls > 0 && r.Answered == r.Calls
}

// SourceOK says whether every server saw the caller's own address, translated.
func (r CallReport) SourceOK() bool {
	return r.Answered > 0 && maps.Equal(r.Sources, map[string]int{r.Source.String(): r.Answered})
}

// Add takes in more calls of the same caller.
func (r *CallReport) Add(more CallReport) {
	if r.Calls == 0 {
		*r = more
		return
	}
	r.Calls, r.Answered, r.Seconds = r.Calls+more.Calls, r.Answered+more.Answered, r.Seconds+more.Seconds
	r.SlowestMilliseconds = max(r.SlowestMilliseconds, more.SlowestMilliseconds)
	r.Errors = append(r.Errors, more.Errors...)
	for name, n := range more.Servers {
		r.Servers[name] += n
	}
	for name, n := range more.Sources {
		r.Sources[name] += n
	}
}

func (r CallReport) String() string {
	text := fmt.Sprintf("%s: %d of %d connections answered in %.1f s, the slowest after %.0f ms; by %s; seen as %s",
		r.Host, r.Answered, r.Calls, r.Seconds, r.SlowestMilliseconds, counts(r.Servers), counts(r.Sources))
	if len(r.Errors) > 0 {
		text += fmt.Sprintf("; %q", r.Errors)
	}
	return text
}

func counts(of map[string]int) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(of)) {
		text += fmt.Sprintf(", %s (%d)", name, of[name])
	}
	if text == "" {
		return "nobody"
	}
	return text[2:]
}

// Shared is the service of one cluster as others import it, its endpoints watched
// in all of them.
type Shared struct {
	Exporter  *testbed.Cluster
	Importers []*testbed.Cluster

	own      *testbed.EndpointWatch
	imported []*testbed.EndpointWatch
}

// Share starts the watches, which end with ctx.
func Share(ctx context.Context, exporter *testbed.Cluster, importers ...*testbed.Cluster) (*Shared, error) {
	s := &Shared{Exporter: exporter, Importers: importers}
	var err error
	if s.own, err = exporter.WatchOwnEndpoints(ctx); err != nil {
		return nil, err
	}
	for _, importer := range importers {
		w, err := importer.WatchImportedEndpoints(ctx, exporter.Name)
		if err != nil {
			return nil, err
		}
		s.imported = append(s.imported, w)
	}
	return s, nil
}

// Ready endpoints, by their addresses in the exporter.
func (s *Shared) Ready() []netip.Addr { return s.own.Ready() }

// Count waits until the exporter has so many ready endpoints and the importers
// have them all in their own view, and returns them and how long the slowest
// importer took from the change in the exporter.
func (s *Shared) Count(ctx context.Context, count int, limit time.Duration) ([]netip.Addr, time.Duration, error) {
	ready, err := s.own.AwaitCount(ctx, count, limit)
	if err != nil {
		return nil, 0, err
	}
	took, err := s.Follow(ctx, ready, limit)
	return ready, took, err
}

// Follow waits until the exporter has these ready endpoints and the importers
// have them all in their own view; see Count.
func (s *Shared) Follow(ctx context.Context, ready []netip.Addr, limit time.Duration) (time.Duration, error) {
	changed, err := s.own.Await(ctx, ready, limit)
	if err != nil {
		return 0, err
	}
	var slowest time.Duration
	for i, w := range s.imported {
		want, err := s.Importers[i].RemapAll(ctx, s.Exporter.Name, ready)
		if err != nil {
			return 0, err
		}
		followed, err := w.Await(ctx, want, limit)
		if err != nil {
			return 0, err
		}
		slowest = max(slowest, followed.Sub(changed))
	}
	return slowest, nil
}

// Withdrawn waits until no importer has any endpoint of the exporter.
func (s *Shared) Withdrawn(ctx context.Context, limit time.Duration) error {
	for _, w := range s.imported {
		if _, err := w.AwaitCount(ctx, 0, limit); err != nil {
			return err
		}
	}
	return nil
}

// Kept says which importer has been without one of these endpoints at some moment
// since a time.
func (s *Shared) Kept(ctx context.Context, since time.Time, ready []netip.Addr) error {
	var errs []error
	for i, w := range s.imported {
		want, err := s.Importers[i].RemapAll(ctx, s.Exporter.Name, ready)
		if err != nil {
			return err
		}
		if missed := w.Missed(since, want); len(missed) > 0 {
			errs = append(errs, fmt.Errorf("cluster %s was without endpoints %v of %s", s.Importers[i].Name, missed, s.Exporter.Name))
		}
	}
	return errors.Join(errs...)
}

// Toggle makes pods of the exporter backends of the service and takes them away
// again, in turns, changes times in all, and returns how long each change took to
// reach the slowest importer. Everything is as before at the end of an even number.
func (s *Shared) Toggle(ctx context.Context, pods []testbed.Host, changes int, limit time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	for i := range changes {
		pod, serve := pods[i/2%len(pods)], i%2 == 0
		want := slices.DeleteFunc(slices.Clone(s.Ready()), func(a netip.Addr) bool { return a == pod.Address })
		if serve {
			want = append(want, pod.Address)
		}
		if err := pod.Serve(ctx, serve); err != nil {
			return took, err
		}
		one, err := s.Follow(ctx, want, limit)
		if err != nil {
			return took, err
		}
		took = append(took, one)
	}
	return took, nil
}
