package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

const (
	// propagationLimit from a changed endpoint in the exporter to the slices of the
	// importers.
	propagationLimit = 2 * time.Second
	// serviceLimit bounds what pods' starts and DNS caches take.
	serviceLimit = time.Minute
	// settleLimit bounds what kube-proxy takes to follow the slices.
	settleLimit = 10 * time.Second
	// steadyCalls are opened at a time while something is stopped.
	steadyCalls = 20
)

// service is one that b exports to a, which it reaches through c, and to c.
type service struct {
	*suite
	shared   *measure.Shared
	callers  []measure.Caller
	backends []netip.Addr
	// addresses of the service in the callers' clusters.
	addresses []netip.Addr
}

// shareService watches the endpoints until the test ends.
func (s *suite) shareService(t *testing.T) *service {
	t.Helper()
	v := &service{suite: s}
	var err error
	v.shared, err = measure.Share(t.Context(), s.b, s.a, s.c)
	require.NoError(t, err)
	for _, name := range []string{"a", "c"} {
		hosts := s.hosts[name]
		caller, err := measure.NewCaller(t.Context(), hosts[len(hosts)-1], s.b)
		require.NoError(t, err)
		v.callers = append(v.callers, caller)
	}
	return v
}

// exported: once a and b, who know each other through c alone, grant it, the
// service is imported in both, and its name resolves in their pods.
func (v *service) exported(t *testing.T) {
	ctx := bounded(t, 5*time.Minute)
	var group errgroup.Group
	for _, c := range v.clusters() {
		group.Go(func() error { return c.EnableDNS(ctx) })
	}
	require.NoError(t, v.b.Apply(ctx, testbed.EchoService(2)+"---\n"+testbed.ServiceExport(testbed.ServiceName)))
	_, err := v.b.WaitExport(ctx, testbed.ServiceName, mcsv1beta1.ServiceExportConditionReady, metav1.ConditionTrue, "", serviceLimit)
	require.NoError(t, err)
	_, err = v.c.WaitImport(ctx, serviceLimit)
	require.NoError(t, err)
	_, err = v.a.WaitImport(ctx, time.Second)
	require.Error(t, err, "imported though nobody granted it")
	for c, other := range v.suite.both() {
		require.NoError(t, c.GrantServices(ctx, other.Name))
	}
	for _, caller := range v.callers {
		address, err := caller.Cluster.WaitImport(ctx, serviceLimit)
		require.NoError(t, err)
		v.addresses = append(v.addresses, address)
	}
	v.backends, _, err = v.shared.Count(ctx, 2, serviceLimit)
	require.NoError(t, err)
	require.NoError(t, group.Wait())
	v.resolves(t, ctx)
}

// resolves requires the name to have the service's address.
func (v *service) resolves(t *testing.T, ctx context.Context) {
	t.Helper()
	for i, caller := range v.callers {
		_, err := measure.AwaitNslookup(ctx, caller.Host, serviceLimit, func(n measure.Nslookup) bool {
			return n.Resolved(v.addresses[i])
		})
		require.NoError(t, err)
	}
}

// called: new connections reach every backend, which sees the callers' own
// addresses, translated.
func (v *service) called(t *testing.T) { v.call(t, bounded(t, 2*time.Minute), 200) }

func (v *service) call(t *testing.T, ctx context.Context, count int) {
	t.Helper()
	v.each(t, func(c measure.Caller) (measure.CallReport, error) { return c.Call(ctx, v.backends, count) })
}

// each has the callers call at the same time, and requires that all is well.
func (v *service) each(t *testing.T, call func(measure.Caller) (measure.CallReport, error)) {
	t.Helper()
	var group errgroup.Group
	for _, caller := range v.callers {
		group.Go(func() error {
			report, err := call(caller)
			if err == nil && (!report.OK() || !report.SourceOK()) {
				err = fmt.Errorf("wanted every backend of %v, and source %s: %s", report.Backends, caller.Source, report)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
}

// scaled: the slices follow b's endpoints within the limit, up and down.
func (v *service) scaled(t *testing.T) {
	ctx := bounded(t, 4*time.Minute)
	for _, count := range []int{3, 2} {
		require.NoError(t, v.b.ScaleBackends(ctx, count))
		backends, took, err := v.shared.Count(ctx, count, serviceLimit)
		require.NoError(t, err)
		require.LessOrEqual(t, took, propagationLimit)
		before := v.backends
		v.backends = backends
		v.each(t, func(c measure.Caller) (measure.CallReport, error) {
			return c.Settle(ctx, backends, before, settleLimit)
		})
	}
	took, err := v.shared.Toggle(ctx, v.hosts["b"], 6, serviceLimit)
	require.NoError(t, err)
	t.Logf("changed endpoints reached the other clusters after %v", took)
	require.LessOrEqual(t, slices.Max(took), propagationLimit)
}

// wrongExports get their conditions, and harm no other.
func (v *service) wrongExports(t *testing.T) {
	ctx := bounded(t, 4*time.Minute)
	since := time.Now()
	const services = `apiVersion: v1
kind: Service
metadata: {namespace: ` + testbed.TrafficNamespace + `, name: elsewhere}
spec: {type: ExternalName, externalName: example.com}
---
apiVersion: v1
kind: Service
metadata: {namespace: ` + testbed.TrafficNamespace + `, name: headless}
spec: {clusterIP: None, selector: {no: pod}, ports: [{port: 80}]}
---
`
	require.NoError(t, v.b.Apply(ctx, services+testbed.ServiceExport("missing")+"---\n"+testbed.ServiceExport("elsewhere")+"---\n"+testbed.ServiceExport("headless")))
	for _, want := range []struct {
		name, reason string
		kind         mcsv1beta1.ServiceExportConditionType
	}{
		{"missing", string(mcsv1beta1.ServiceExportReasonNoService), mcsv1beta1.ServiceExportConditionValid},
		{"elsewhere", string(mcsv1beta1.ServiceExportReasonInvalidServiceType), mcsv1beta1.ServiceExportConditionValid},
		{"headless", "HeadlessNotSupported", mcsv1beta1.ServiceExportConditionReady},
	} {
		condition, err := v.b.WaitExport(ctx, want.name, want.kind, metav1.ConditionFalse, want.reason, serviceLimit)
		require.NoError(t, err)
		require.NotEmpty(t, condition.Message)
		require.NoError(t, v.b.Unexport(ctx, want.name))
	}
	v.conflict(t, ctx)
	require.NoError(t, v.shared.Kept(ctx, since, v.backends))
}

// conflict: a exports another port under the same name, later than b.
func (v *service) conflict(t *testing.T, ctx context.Context) {
	t.Helper()
	const other = `apiVersion: v1
kind: Service
metadata: {namespace: ` + testbed.TrafficNamespace + `, name: ` + testbed.ServiceName + `}
spec: {selector: {no: pod}, ports: [{name: echo, port: 7999}]}
---
`
	require.NoError(t, v.a.Apply(ctx, other+testbed.ServiceExport(testbed.ServiceName)))
	for _, c := range []*testbed.Cluster{v.a, v.b} {
		_, err := c.WaitExport(ctx, testbed.ServiceName, mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionTrue,
			string(mcsv1beta1.ServiceExportReasonPortConflict), serviceLimit)
		require.NoError(t, err)
	}
	v.call(t, ctx, 50) // the older export's port stands
	require.NoError(t, v.a.Unexport(ctx, testbed.ServiceName))
	_, err := v.b.WaitExport(ctx, testbed.ServiceName, mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionFalse, "", serviceLimit)
	require.NoError(t, err)
}

// stays: while controllers are stopped, a replica of weft-dns is killed, and b's
// API server and with it b's channels are down, every call is answered and no
// slice loses an endpoint.
func (v *service) stays(t *testing.T) {
	ctx := bounded(t, 8*time.Minute)
	since := time.Now()
	called := v.callOn(ctx, v.callName)
	v.stopControllers(t, ctx)
	for _, c := range []*testbed.Cluster{v.a, v.c} {
		replicas, err := c.Processes(ctx, testbed.DNS, "")
		require.NoError(t, err)
		require.Len(t, replicas, 2)
		fresh, err := c.Replace(ctx, testbed.DNS, replicas[0], time.Minute)
		require.NoError(t, err)
		t.Logf("%s killed %s, now %s", clock(time.Now()), replicas[0], fresh)
	}
	require.NoError(t, v.lab.StopAPIServer(ctx, "b"))
	wait(t, ctx, outage)
	require.NoError(t, v.lab.StartAPIServer(ctx, "b"))
	require.NoError(t, v.b.Leads(ctx, time.Now(), 3*time.Minute))
	v.allAnswered(t, called)
	require.NoError(t, v.shared.Kept(ctx, since, v.backends))
	v.resolves(t, ctx)
}

// stopControllers of the exporter and of an importer for a while.
func (v *service) stopControllers(t *testing.T, ctx context.Context) {
	t.Helper()
	both := []*testbed.Cluster{v.a, v.b}
	for _, c := range both {
		require.NoError(t, c.Scale(ctx, v1alpha1.SystemNamespace, testbed.Controller, 0))
	}
	for _, c := range both {
		require.Eventually(t, func() bool {
			processes, err := c.Processes(ctx, testbed.Controller, "")
			return err == nil && len(processes) == 0
		}, time.Minute, 200*time.Millisecond)
	}
	t.Logf("%s no controller runs in a and b", clock(time.Now()))
	wait(t, ctx, calm)
	for _, c := range both {
		require.NoError(t, c.Scale(ctx, v1alpha1.SystemNamespace, testbed.Controller, 1))
	}
	for _, c := range both {
		require.NoError(t, c.Leads(ctx, time.Now(), 2*time.Minute))
	}
	t.Logf("%s controllers lead again", clock(time.Now()))
}

// callName and callAddress call the service as the caller i does, by its name or,
// without a look-up, by its address.
func (v *service) callName(ctx context.Context, i int) (measure.CallReport, error) {
	return v.callers[i].Call(ctx, v.backends, steadyCalls)
}

func (v *service) callAddress(ctx context.Context, i int) (measure.CallReport, error) {
	return v.callers[i].CallAt(ctx, v.addresses[i].String(), v.backends, steadyCalls)
}

// callOn calls the service again and again until finish, which sums up the calls
// of each caller.
func (v *service) callOn(ctx context.Context, call func(ctx context.Context, i int) (measure.CallReport, error)) (finish func() ([]measure.CallReport, error)) {
	stop := make(chan struct{})
	sums := make([]measure.CallReport, len(v.callers))
	var group errgroup.Group
	for i := range v.callers {
		group.Go(func() error {
			for {
				report, err := call(ctx, i)
				if err != nil {
					return err
				}
				sums[i].Add(report)
				select {
				case <-stop:
					return nil
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	return func() ([]measure.CallReport, error) {
		close(stop)
		err := group.Wait()
		return sums, err
	}
}

// allAnswered ends calls, and requires that each was answered.
func (v *service) allAnswered(t *testing.T, finish func() ([]measure.CallReport, error)) {
	t.Helper()
	reports, err := finish()
	require.NoError(t, err)
	for _, r := range reports {
		t.Log(r)
		require.Equal(t, r.Calls, r.Answered, r.String())
		require.True(t, r.OK() && r.SourceOK(), r.String())
	}
}

// exporterCutOff: b's endpoints leave the slices, the name stays; healed, they
// return.
func (v *service) exporterCutOff(t *testing.T) {
	ctx := bounded(t, 4*time.Minute)
	begin := time.Now()
	for _, c := range []string{"a", "c"} {
		require.NoError(t, v.lab.Cut(ctx, c, "b"))
	}
	require.NoError(t, v.shared.Withdrawn(ctx, serviceLimit))
	t.Logf("no endpoint of b left after %.1f s", time.Since(begin).Seconds())
	v.resolves(t, ctx)
	begin = time.Now()
	for _, c := range []string{"a", "c"} {
		require.NoError(t, v.lab.Heal(ctx, c, "b"))
	}
	_, err := v.shared.Follow(ctx, v.backends, serviceLimit)
	require.NoError(t, err)
	t.Logf("endpoints are back after %.1f s", time.Since(begin).Seconds())
	v.each(t, func(c measure.Caller) (measure.CallReport, error) { return c.Recover(ctx, v.backends, settleLimit) })
}

// unexported: the name and all that was made of the export are gone.
func (v *service) unexported(t *testing.T) {
	ctx := bounded(t, 2*time.Minute)
	require.NoError(t, v.b.Unexport(ctx, testbed.ServiceName))
	for _, caller := range v.callers {
		_, err := measure.AwaitNslookup(ctx, caller.Host, serviceLimit, measure.Nslookup.Unknown)
		require.NoError(t, err)
	}
	require.NoError(t, v.shared.Withdrawn(ctx, serviceLimit))
	for _, c := range v.clusters() {
		require.Eventually(t, func() bool {
			left, err := c.ImportedResidue(ctx)
			return err == nil && len(left) == 0
		}, serviceLimit, 200*time.Millisecond, "cluster %s keeps what was imported", c.Name)
	}
}
