package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// EndpointWatch sees the ready endpoints of the service in one cluster, those of
// all its slices together, and remembers when they changed.
type EndpointWatch struct {
	cluster string

	mu        sync.Mutex
	slices    map[string][]netip.Addr
	sightings []sighting
	changed   chan struct{} // closed at the next sighting
}

// sighting is the ready endpoints, in order, from a time on.
type sighting struct {
	at    time.Time
	ready []netip.Addr
}

// WatchOwnEndpoints watches those of the Service itself, until ctx ends.
func (c *Cluster) WatchOwnEndpoints(ctx context.Context) (*EndpointWatch, error) {
	return c.watchEndpoints(ctx, discoveryv1.LabelServiceName+"="+ServiceName)
}

// WatchImportedEndpoints watches those that come from a foreign cluster.
func (c *Cluster) WatchImportedEndpoints(ctx context.Context, foreign string) (*EndpointWatch, error) {
	return c.watchEndpoints(ctx, mcsv1beta1.LabelServiceName+"="+ServiceName+","+mcsv1beta1.LabelSourceCluster+"="+foreign)
}

func (c *Cluster) watchEndpoints(ctx context.Context, selector string) (*EndpointWatch, error) {
	w := &EndpointWatch{cluster: c.Name, slices: map[string][]netip.Addr{}, changed: make(chan struct{})}
	w.sightings = []sighting{{at: time.Now()}}
	factory := informers.NewSharedInformerFactoryWithOptions(c.Logs, 0, informers.WithNamespace(TrafficNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	informer := factory.Discovery().V1().EndpointSlices().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.see(object, false) },
		UpdateFunc: func(_, object any) { w.see(object, false) },
		DeleteFunc: func(object any) { w.see(object, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch the endpoint slices of cluster %s: %w", c.Name, err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil, fmt.Errorf("watch the endpoint slices of cluster %s: %w", c.Name, context.Cause(ctx))
	}
	return w, nil
}

// see takes in what has become of a slice.
func (w *EndpointWatch) see(object any, gone bool) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.slices, slice.Name)
	if !gone {
		w.slices[slice.Name] = readyEndpoints(slice)
	}
	var ready []netip.Addr
	for _, addresses := range w.slices {
		ready = append(ready, addresses...)
	}
	ready = inOrder(ready)
	if slices.Equal(ready, w.sightings[len(w.sightings)-1].ready) {
		return
	}
	w.sightings = append(w.sightings, sighting{time.Now(), ready})
	close(w.changed)
	w.changed = make(chan struct{})
}

func readyEndpoints(slice *discoveryv1.EndpointSlice) []netip.Addr {
	var ready []netip.Addr
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, text := range e.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				ready = append(ready, address)
			}
		}
	}
	return ready
}

// inOrder sorts a copy, each address once.
func inOrder(addresses []netip.Addr) []netip.Addr {
	sorted := slices.Clone(addresses)
	slices.SortFunc(sorted, netip.Addr.Compare)
	return slices.Compact(sorted)
}

// Ready returns the ready endpoints as they are now, in order.
func (w *EndpointWatch) Ready() []netip.Addr {
	last, _ := w.last()
	return last.ready
}

func (w *EndpointWatch) last() (sighting, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sightings[len(w.sightings)-1], w.changed
}

// Await waits until the ready endpoints are these, in any order, and returns
// since when they are.
func (w *EndpointWatch) Await(ctx context.Context, want []netip.Addr, limit time.Duration) (time.Time, error) {
	want = inOrder(want)
	return w.await(ctx, limit, want, func(ready []netip.Addr) bool { return slices.Equal(ready, want) })
}

// AwaitCount waits until so many endpoints are ready, and returns them.
func (w *EndpointWatch) AwaitCount(ctx context.Context, count int, limit time.Duration) ([]netip.Addr, error) {
	_, err := w.await(ctx, limit, count, func(ready []netip.Addr) bool { return len(ready) == count })
	return w.Ready(), err
}

func (w *EndpointWatch) await(ctx context.Context, limit time.Duration, want any, met func([]netip.Addr) bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		last, changed := w.last()
		if met(last.ready) {
			return last.at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait %s for the ready endpoints of service %s in cluster %s to be %v: they are %v", limit, ServiceName, w.cluster, want, last.ready)
		}
	}
}

// Missed returns those of the endpoints that were not ready at some moment since
// a time.
func (w *EndpointWatch) Missed(since time.Time, endpoints []netip.Addr) []netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missed []netip.Addr
	for i, s := range w.sightings {
		if i+1 < len(w.sightings) && w.sightings[i+1].at.Before(since) {
			continue // over by then
		}
		for _, e := range endpoints {
			if !slices.Contains(s.ready, e) {
				missed = append(missed, e)
			}
		}
	}
	return inOrder(missed)
}
