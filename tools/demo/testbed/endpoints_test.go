package testbed

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func endpointSlice(name string, ready map[string]bool) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for address, is := range ready {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &is},
		})
	}
	return slice
}

// Two slices; an endpoint of the first is not ready for a while, then the second
// goes.
func TestEndpointWatch(t *testing.T) {
	one, two, three := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	w := &EndpointWatch{cluster: "a", slices: map[string][]netip.Addr{}, sightings: []sighting{{}}, changed: make(chan struct{})}
	w.see(endpointSlice("x", map[string]bool{"10.0.0.1": true, "10.0.0.2": true}), false)
	w.see(endpointSlice("y", map[string]bool{"10.0.0.3": true}), false)
	since, err := w.Await(t.Context(), []netip.Addr{three, one, two}, time.Second)
	require.NoError(t, err)
	begin := time.Now()
	require.Empty(t, w.Missed(begin, []netip.Addr{one, two, three}))

	w.see(endpointSlice("x", map[string]bool{"10.0.0.1": true, "10.0.0.2": false}), false)
	require.Equal(t, []netip.Addr{one, three}, w.Ready())
	w.see(endpointSlice("x", map[string]bool{"10.0.0.1": true, "10.0.0.2": true}), false)
	w.see(endpointSlice("x", map[string]bool{"10.0.0.1": true, "10.0.0.2": true}), false) // changes nothing
	again, err := w.Await(t.Context(), []netip.Addr{one, two, three}, time.Second)
	require.NoError(t, err)
	require.True(t, again.After(since))
	require.Equal(t, []netip.Addr{two}, w.Missed(begin, []netip.Addr{one, two, three}))
	require.Empty(t, w.Missed(time.Now(), []netip.Addr{one, two, three}))

	w.see(cache.DeletedFinalStateUnknown{Obj: endpointSlice("y", nil)}, true)
	ready, err := w.AwaitCount(t.Context(), 2, time.Second)
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{one, two}, ready)
	_, err = w.AwaitCount(t.Context(), 3, time.Millisecond)
	require.ErrorContains(t, err, "in cluster a to be 3: they are [10.0.0.1 10.0.0.2]")
}

// The change happens while it is waited for.
func TestEndpointWatchWaits(t *testing.T) {
	w := &EndpointWatch{slices: map[string][]netip.Addr{}, sightings: []sighting{{}}, changed: make(chan struct{})}
	go w.see(endpointSlice("x", map[string]bool{"10.0.0.1": true}), false)
	_, err := w.AwaitCount(t.Context(), 1, 10*time.Second)
	require.NoError(t, err)
}
