// Package e2e runs Weft on real Kubernetes clusters in the lab, as a user
// would: with lab, weftctl and kubectl's API.
//
// The tests need the programs and images that `make images` builds, and root.
// They take the lab over: one that runs is removed first. Environment:
//
//	WEFT_E2E_FULL=1   also combined cases, five minutes instead of seconds
//	                  between the two halves of a peering, and outages as long
//	                  as what has to outlive them promises
//	WEFT_E2E_REUSE=1  use the lab that runs, with what is installed in it, and
//	                  leave it running: for working on one case
//
// On a failure, logs and state of everything are in out/e2e/<test>.
package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

const (
	roundTrip    = 20 * time.Millisecond
	installLimit = 5 * time.Minute
	podLimit     = 2 * time.Minute
	// connectLimit is promised: connected within 60 s of the second half.
	connectLimit = 60 * time.Second
)

func full() bool  { return os.Getenv("WEFT_E2E_FULL") == "1" }
func reuse() bool { return os.Getenv("WEFT_E2E_REUSE") == "1" }

// suite is a lab of two or three clusters with Weft in all.
type suite struct {
	lab   testbed.Lab
	a, b  *testbed.Cluster
	c     *testbed.Cluster // nil where there are two
	hosts map[string][]testbed.Host
}

// progress shows other programs' progress in the test's log, with the time.
type progress struct{ t *testing.T }

func (p progress) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			p.t.Log(clock(time.Now()), line)
		}
	}
	return len(b), nil
}

// start brings a lab of two clusters up, if options ask for no other number, and
// installs Weft; extra are more arguments of `weftctl install` by cluster. When
// the test ends, the lab is removed.
func start(t *testing.T, options testbed.LabOptions, extra map[string][]string) *suite {
	t.Helper()
	require.Zero(t, os.Geteuid(), "run as root: the lab makes network namespaces")
	root, err := testbed.FindRoot()
	require.NoError(t, err)
	s := &suite{lab: testbed.Lab{Root: root, Progress: progress{t}}, hosts: map[string][]testbed.Host{}}
	require.NoError(t, s.lab.Check())
	ctx := bounded(t, 30*time.Minute)
	if !reuse() {
		require.NoError(t, s.lab.Down(ctx))
	}
	options.Clusters, options.Nodes = max(2, options.Clusters), 2
	t.Cleanup(func() { s.end(t) })
	require.NoError(t, s.lab.Up(ctx, options))
	s.open(t, ctx, options.Clusters)
	require.NoError(t, s.lab.LoadImages(ctx))
	s.install(t, extra)
	s.startPods(t)
	return s
}

// open sets the links and reaches the API servers.
func (s *suite) open(t *testing.T, ctx context.Context, clusters int) {
	t.Helper()
	names := []string{"a", "b", "c"}[:clusters]
	for _, span := range testbed.Triangle() {
		if slices.Contains(names, span.A) && slices.Contains(names, span.B) {
			require.NoError(t, s.lab.Link(ctx, span.A, span.B, span.RTT))
		}
	}
	opened, err := s.lab.OpenAll(ctx, names...)
	require.NoError(t, err)
	s.a, s.b = opened[0], opened[1]
	if clusters > 2 {
		s.c = opened[2]
	}
}

// end keeps evidence of a failure and removes the lab.
func (s *suite) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if t.Failed() {
		folder := s.lab.Out("e2e", t.Name())
		t.Logf("logs and state are in %s", folder)
		if err := testbed.CollectLogs(ctx, folder, s.clusters()...); err != nil {
			t.Log(err)
		}
	}
	if !reuse() {
		require.NoError(t, s.lab.Down(ctx))
	}
}

func (s *suite) clusters() []*testbed.Cluster {
	clusters := []*testbed.Cluster{s.a, s.b}
	if s.c != nil {
		clusters = append(clusters, s.c)
	}
	return clusters
}

func (s *suite) install(t *testing.T, extra map[string][]string) {
	t.Helper()
	group, ctx := errgroup.WithContext(bounded(t, installLimit+time.Minute))
	for _, c := range s.clusters() {
		group.Go(func() error { return c.Install(ctx, installLimit, extra[c.Name]...) })
	}
	require.NoError(t, group.Wait())
}

func (s *suite) startPods(t *testing.T) {
	t.Helper()
	ctx := bounded(t, 2*podLimit)
	for _, c := range s.clusters() {
		gateways, plain, err := c.Nodes(ctx)
		require.NoError(t, err)
		require.NotEmpty(t, gateways)
		require.NotEmpty(t, plain)
		s.hosts[c.Name], err = c.StartPods(ctx, gateways, plain, podLimit)
		require.NoError(t, err)
	}
}

// matrix requires every ordered pair of pods of any two clusters to work over
// every protocol, each server seeing the client's address in its own cluster's
// view.
func (s *suite) matrix(t *testing.T) {
	t.Helper()
	ctx := bounded(t, 5*time.Minute)
	var pairs [][]measure.Pair
	clusters := s.clusters()
	for i, a := range clusters {
		for _, b := range clusters[i+1:] {
			across, err := measure.Pairs(ctx, s.hosts[a.Name], s.hosts[b.Name])
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(across), 8)
			pairs = append(pairs, across)
		}
	}
	results, err := measure.TryAll(ctx, pairs, 8192, 60000)
	require.NoError(t, err)
	require.Len(t, results, len(slices.Concat(pairs...)))
	for _, result := range results {
		for _, check := range result.Checks {
			if check.Err != nil {
				t.Errorf("%s -> %s (%s): %s of %d bytes: %v", result.From, result.To, result.Target, check.Protocol, check.Bytes, check.Err)
			}
		}
		require.True(t, result.OK() && result.SourcesOK(), "%s -> %s", result.From, result.To)
	}
}

// bounded is the test's context with a limit.
func bounded(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// step runs a subtest and stops the test if it failed: the later ones build on
// it.
func step(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	begin := time.Now()
	if !t.Run(name, run) {
		t.Fatalf("stopped after %q", name)
	}
	t.Logf("%s: %s", name, fmt.Sprintf("%.1f s", time.Since(begin).Seconds()))
}
