// Package watch keeps the zone's index in step with the ServiceImports of the
// cluster. An API server that is away changes nothing: the index stays, and
// reading goes on once it is back.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/mcs-api/pkg/client/clientset/versioned"

	"github.com/weft-fabric/weft/apis/patient"
	"github.com/weft-fabric/weft/dns/zone"
)

// Watch of one cluster.
type Watch struct {
	informer cache.SharedIndexInformer
	synced   cache.InformerSynced
	changed  *changed
	index    atomic.Pointer[zone.Index]
	log      *slog.Logger
	failures prometheus.Counter
}

// New makes a watch of the API server of config and registers its metrics.
// Nothing is read before Run.
func New(config *rest.Config, log *slog.Logger, registry prometheus.Registerer) (*Watch, error) {
	config = rest.CopyConfig(config)
	config.Wrap(patient.Wrap)
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up the API server's client: %w", err)
	}
	source := cache.NewListWatchFromClient(client.MulticlusterV1beta1().RESTClient(), mcs.ServiceImportPluralName, "", fields.Everything())
	w := &Watch{informer: cache.NewSharedIndexInformer(source, &mcs.ServiceImport{}, 0, nil), changed: newChanged(), log: log}
	if err := w.register(registry); err != nil {
		return nil, err
	}
	if err := w.informer.SetTransform(stripped); err != nil {
		return nil, fmt.Errorf("set up the watch of ServiceImports: %w", err)
	}
	if err := w.informer.SetWatchErrorHandlerWithContext(w.failed); err != nil {
		return nil, fmt.Errorf("set up the watch of ServiceImports: %w", err)
	}
	handling, err := w.informer.AddEventHandler(w.changed.handler())
	if err != nil {
		return nil, fmt.Errorf("set up the watch of ServiceImports: %w", err)
	}
	w.synced = handling.HasSynced
	return w, nil
}

// Index returns what the zone holds; nil before everything was read once.
func (w *Watch) Index() *zone.Index { return w.index.Load() }

// Run until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	go w.informer.RunWithContext(ctx)
	// False means that ctx has ended, as the loop sees as well.
	if cache.WaitForCacheSync(ctx.Done(), w.synced) {
		// Resolvers compare serials of one server alone, over its restarts.
		w.apply(zone.Empty(uint32(time.Now().Unix())))
		w.log.Info("the zone is known", "services", w.Index().Len())
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed.some:
			w.apply(w.Index())
		}
	}
}

// apply brings the index up to date with all changes since the last time.
func (w *Watch) apply(index *zone.Index) {
	var set []zone.Service
	var gone []zone.Key
	for _, key := range w.changed.take() {
		object, exists, err := w.informer.GetStore().GetByKey(key.Namespace + "/" + key.Name)
		imported, _ := object.(*mcs.ServiceImport)
		if err != nil || !exists || imported == nil || imported.Spec.Type != mcs.ClusterSetIP {
			gone = append(gone, key)
			continue
		}
		set = append(set, serviceOf(imported))
	}
	w.index.Store(index.Change(set, gone))
}

// stripped forgets who wrote which field, which takes most of an object's memory.
func stripped(object any) (any, error) {
	if imported, ok := object.(*mcs.ServiceImport); ok {
		imported.ManagedFields = nil
	}
	return object, nil
}

// failed reports a failed read; the informer tries again. That a watch ends, or
// its start is too old, is ordinary.
func (w *Watch) failed(_ context.Context, _ *cache.Reflector, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
		return
	}
	w.failures.Inc()
	w.log.Warn("cannot read ServiceImports; trying again, the zone stays as it is", "error", err)
}

func (w *Watch) register(registry prometheus.Registerer) error {
	w.failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "weft_dns_watch_failures_total", Help: "Failed attempts to read ServiceImports from the API server.",
	})
	services := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weft_dns_services", Help: "Services in the zone; 0 also before they are known.",
	}, func() float64 {
		if index := w.Index(); index != nil {
			return float64(index.Len())
		}
		return 0
	})
	for _, collector := range []prometheus.Collector{w.failures, services} {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("register metrics of the watch: %w", err)
		}
	}
	return nil
}
