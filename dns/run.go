// Package dns is weft-dns: it answers for clusterset.local in one cluster. It
// reads ServiceImports and nothing else, and what it knows it goes on saying
// while the API server is away.
package dns

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/weft-fabric/weft/apis/patient"
	"github.com/weft-fabric/weft/dns/server"
	"github.com/weft-fabric/weft/dns/watch"
)

// Options of Run.
type Options struct {
	// Kubeconfig names a file; empty means the pod's service account.
	Kubeconfig string
	// Bind is the address that serves DNS over UDP and TCP.
	Bind string
	// MetricsBind and HealthBind are TCP addresses; "0" serves nothing.
	MetricsBind string
	HealthBind  string
	// LameDuck is how long it goes on answering, not ready any more, when it is to
	// stop: until nobody sends it questions.
	LameDuck time.Duration
	// ResolvConf names the cluster's DNS as this pod sees it.
	ResolvConf string
	Log        *slog.Logger
}

// Run answers until ctx ends, and LameDuck longer.
func Run(ctx context.Context, o Options) error {
	klog.SetLogger(logr.FromSlogHandler(o.Log.Handler()))
	config, err := patient.Load(o.Kubeconfig, "weft-dns")
	if err != nil {
		return err
	}
	return run(ctx, config, o)
}

func run(stopping context.Context, config *rest.Config, o Options) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	imports, err := watch.New(config, o.Log, registry)
	if err != nil {
		return err
	}
	answers, err := server.New(stopping, o.Bind, imports.Index, server.Limits{}, registry)
	if err != nil {
		return err
	}
	health := &health{ready: func() bool { return imports.Index() != nil && stopping.Err() == nil }, resolvConf: o.ResolvConf}
	o.Log.Info("starting", "address", answers.Address())

	lasting, end := context.WithCancel(context.WithoutCancel(stopping))
	defer end()
	group, lasting := errgroup.WithContext(lasting)
	group.Go(func() error { return imports.Run(lasting) })
	group.Go(func() error { return answers.Run(lasting) })
	group.Go(func() error { return serveHTTP(lasting, "metrics", o.MetricsBind, metricsHandler(registry)) })
	group.Go(func() error { return serveHTTP(lasting, "health", o.HealthBind, health.handler()) })
	group.Go(func() error { defer end(); return linger(stopping, lasting, o.LameDuck) })
	return group.Wait()
}

// linger waits until the process is to stop, and the lame duck's time longer.
func linger(stopping, lasting context.Context, lameDuck time.Duration) error {
	select {
	case <-lasting.Done():
		return nil
	case <-stopping.Done():
	}
	timer := time.NewTimer(lameDuck)
	defer timer.Stop()
	select {
	case <-lasting.Done():
	case <-timer.C:
	}
	return nil
}
