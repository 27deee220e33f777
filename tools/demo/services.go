package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/tools/demo/measure"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

const (
	serviceCalls = 1000
	// changesAll of b's endpoints are followed; most are labels put on pods and
	// taken off, the others scale the Deployment up and down.
	changesAll = 20
	replicas   = 2
	scaled     = 4
	// settleLimit bounds what kube-proxy takes to follow the slices.
	settleLimit = 10 * time.Second
	// forgetLimit: weft-dns's TTL, what CoreDNS keeps, and the changes themselves.
	forgetLimit = 30 * time.Second
)

// services exports a service from b, and uses it by its name in a and c while it
// and the paths to it change.
type services struct {
	*demo
	shared  *measure.Shared
	callers []measure.Caller
	// addresses of the service in the callers' clusters.
	addresses []netip.Addr
	backends  []netip.Addr
}

func (d *demo) services(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watches
	s := &services{demo: d}
	for _, name := range []string{"a", "c"} {
		caller, err := measure.NewCaller(ctx, plainHost(d.hosts[name]), d.b)
		if err != nil {
			return err
		}
		s.callers = append(s.callers, caller)
	}
	d.report.DNSOK, d.report.ServiceCallsOK, d.report.ServiceSourceOK = true, true, true
	for _, step := range []func(context.Context) error{
		s.export, s.resolve, s.callBoth, s.callDirectly, s.scale, s.toggle, s.cut, s.heal, s.unexport,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// export has the clusters' DNS forward the zone while the backends start.
func (s *services) export(ctx context.Context) error {
	// Those that know each other through c grant each other nothing by themselves.
	for _, ends := range [][2]*testbed.Cluster{{s.a, s.b}, {s.b, s.a}} {
		s.say("weftctl access %s --export-services All --import-services All, at %s", ends[1].Name, ends[0].Name)
		if err := ends[0].GrantServices(ctx, ends[1].Name); err != nil {
			return err
		}
	}
	group, limited := errgroup.WithContext(ctx)
	for _, c := range s.clusters() {
		s.say("weftctl dns enable, at %s", c.Name)
		group.Go(func() error { return c.EnableDNS(limited) })
	}
	manifest := testbed.ServiceExport(testbed.ServiceName)
	s.say("start %d backends of service %s in b, and kubectl apply:", replicas, testbed.ServiceName)
	if _, err := fmt.Fprint(s.lab.Progress, manifest); err != nil {
		return err
	}
	if err := s.b.Apply(ctx, testbed.EchoService(replicas)+"---\n"+manifest); err != nil {
		return err
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.imported(ctx)
}

func (s *services) imported(ctx context.Context) error {
	for _, caller := range s.callers {
		address, err := caller.Cluster.WaitImport(ctx, stepLimit)
		if err != nil {
			return err
		}
		s.addresses = append(s.addresses, address)
	}
	var err error
	if s.shared, err = measure.Share(ctx, s.b, s.a, s.c); err != nil {
		return err
	}
	s.backends, _, err = s.shared.Count(ctx, replicas, stepLimit)
	return err
}

// resolve looks the name up where it is used, as a user would.
func (s *services) resolve(ctx context.Context) error {
	return s.lookups(ctx, "", s.known)
}

// known is right of a name that has the service's address at a caller, and no
// other.
func (s *services) known(caller int, n measure.Nslookup) bool { return n.Resolved(s.addresses[caller]) }

// lookups judges the name's answers at each caller; a wrong one is what the report
// tells, not an error.
func (s *services) lookups(ctx context.Context, when string, right func(caller int, n measure.Nslookup) bool) error {
	for i, caller := range s.callers {
		answer, err := measure.AwaitNslookup(ctx, caller.Host, forgetLimit, func(n measure.Nslookup) bool { return right(i, n) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.say("%v", err)
			s.report.DNSOK = false
			continue
		}
		s.say("nslookup %s in a pod on %s%s: %s", testbed.ServiceDomain, caller.Node, when, answer)
	}
	return nil
}

// callBoth calls from a, through c, and from c.
func (s *services) callBoth(ctx context.Context) error { return s.call(ctx, s.callers...) }

// call opens new connections from callers, all at once.
func (s *services) call(ctx context.Context, callers ...measure.Caller) error {
	s.say("open %d TCP connections to %s from %v", serviceCalls, testbed.ServiceDomain, callers)
	return s.each(ctx, callers, func(ctx context.Context, c measure.Caller) (measure.CallReport, error) {
		return c.Call(ctx, s.backends, serviceCalls)
	})
}

// each has callers call at the same time.
func (s *services) each(ctx context.Context, callers []measure.Caller, call func(context.Context, measure.Caller) (measure.CallReport, error)) error {
	reports := make([]measure.CallReport, len(callers))
	group, limited := errgroup.WithContext(ctx)
	for i, caller := range callers {
		group.Go(func() (err error) {
			reports[i], err = call(limited, caller)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, r := range reports {
		s.say("%s", r)
		s.report.called(r)
	}
	return nil
}

// callDirectly calls from a while it is joined with b.
func (s *services) callDirectly(ctx context.Context) error {
	s.say("join a and b directly")
	if err := s.c.Apply(ctx, testbed.Connection(connection, "a", "b", v1alpha1.ModePrefer)); err != nil {
		return err
	}
	if err := s.both(ctx, "", stepLimit); err != nil {
		return err
	}
	if err := s.call(ctx, s.callers[0]); err != nil {
		return err
	}
	if err := s.c.Disconnect(ctx, connection, stepLimit); err != nil {
		return err
	}
	return s.both(ctx, "c", stepLimit)
}

// scale changes the number of backends while they are called.
func (s *services) scale(ctx context.Context) error {
	for _, count := range []int{scaled, replicas} {
		s.say("kubectl scale deployment, to %d", count)
		if err := s.b.ScaleBackends(ctx, count); err != nil {
			return err
		}
		before := s.backends
		after, took, err := s.shared.Count(ctx, count, stepLimit)
		if err != nil {
			return err
		}
		s.backends = after
		s.report.followed(took)
		err = s.each(ctx, s.callers, func(ctx context.Context, c measure.Caller) (measure.CallReport, error) {
			return c.Settle(ctx, after, before, settleLimit)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// toggle changes one endpoint at a time.
func (s *services) toggle(ctx context.Context) error {
	took, err := s.shared.Toggle(ctx, s.hosts["b"], changesAll-s.report.EndpointChanges, stepLimit)
	for _, one := range took {
		s.report.followed(one)
	}
	s.say("%d changes of b's endpoints reached the slices of a and c, the slowest after %.0f ms", s.report.EndpointChanges, s.report.EndpointPropagation)
	return err
}

// cut takes b off from everybody: its endpoints leave, the name stays.
func (s *services) cut(ctx context.Context) error {
	s.say("lab link --down of a and c to b")
	start := time.Now()
	for _, c := range []string{"a", "c"} {
		if err := s.lab.Cut(ctx, c, "b"); err != nil {
			return err
		}
	}
	if err := s.shared.Withdrawn(ctx, stepLimit); err != nil {
		return err
	}
	s.report.WithdrawSeconds = time.Since(start).Seconds()
	s.say("after %.1f s no slice of a and c has an endpoint of b", s.report.WithdrawSeconds)
	return s.lookups(ctx, " meanwhile", s.known)
}

func (s *services) heal(ctx context.Context) error {
	s.say("lab link --up of a and c to b")
	start := time.Now()
	for _, c := range []string{"a", "c"} {
		if err := s.lab.Heal(ctx, c, "b"); err != nil {
			return err
		}
	}
	if _, err := s.shared.Follow(ctx, s.backends, stepLimit); err != nil {
		return err
	}
	s.report.ReturnSeconds = time.Since(start).Seconds()
	s.say("after %.1f s they are back", s.report.ReturnSeconds)
	return s.each(ctx, s.callers, func(ctx context.Context, c measure.Caller) (measure.CallReport, error) {
		return c.Recover(ctx, s.backends, settleLimit)
	})
}

// unexport deletes the export: the name goes.
func (s *services) unexport(ctx context.Context) error {
	s.say("kubectl delete serviceexport %s", testbed.ServiceName)
	start := time.Now()
	if err := s.b.Unexport(ctx, testbed.ServiceName); err != nil {
		return err
	}
	err := s.lookups(ctx, "", func(_ int, n measure.Nslookup) bool { return n.Unknown() })
	s.report.ForgetSeconds = time.Since(start).Seconds()
	return err
}
