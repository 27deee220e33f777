package services

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/controlplane/channel"
)

var owner = &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}

// group of endpoints by the last two bytes of their addresses.
func group(port int32, hosts ...int) channel.Backends {
	out := channel.Backends{Ports: []channel.BackendPort{{Name: "http", Protocol: "TCP", Port: port}}}
	for _, h := range hosts {
		out.Endpoints = append(out.Endpoints, channel.Endpoint{Address: netip.AddrFrom4([4]byte{10, 1, byte(h >> 8), byte(h)}), Ready: true, Serving: true})
	}
	return out
}

func part(cluster string, groups ...channel.Backends) share {
	e := exportOf(cluster, 1, "http:80")
	return share{cluster: e.Cluster, backends: groups, note: note(e.Service, false)}
}

func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

// applied returns the slices after the changes.
func applied(existing []discoveryv1.EndpointSlice, c sliceChanges) []discoveryv1.EndpointSlice {
	byName := map[string]discoveryv1.EndpointSlice{}
	for _, s := range existing {
		byName[s.Name] = s
	}
	for _, s := range slices.Concat(c.create, c.update) {
		byName[s.Name] = *s
	}
	for _, s := range c.remove {
		delete(byName, s.Name)
	}
	var out []discoveryv1.EndpointSlice
	for _, s := range byName {
		out = append(out, s)
	}
	return out
}

func (c sliceChanges) counts() [3]int { return [3]int{len(c.create), len(c.update), len(c.remove)} }

// A change costs a slice or two, whatever there is beside it.
func TestPlanSlices(t *testing.T) {
	var have []discoveryv1.EndpointSlice
	plan := func(shares ...share) [3]int {
		c := planSlices(owner, have, shares)
		have = applied(have, c)
		require.Equal(t, [3]int{}, planSlices(owner, have, shares).counts(), "a plan is done at once")
		return c.counts()
	}
	a, b := part("a", group(80, upTo(250)...)), part("b", group(80, 1), group(81, 2))
	require.Equal(t, [3]int{5, 0, 0}, plan(a, b))
	require.Equal(t, [3]int{0, 1, 0}, plan(part("a", group(80, upTo(251)...)), b), "one more")
	require.Equal(t, [3]int{0, 1, 0}, plan(part("a", group(80, append(upTo(17), upTo(251)[18:]...)...)), b), "one less")
	require.Equal(t, [3]int{0, 0, 1}, plan(part("a", group(80, append(upTo(17), upTo(251)[18:]...)...)), part("b", group(80, 1))), "a port less")
	require.Equal(t, [3]int{0, 1, 0}, plan(part("a", group(80, append(upTo(17), upTo(251)[18:]...)...)), part("b")), "a cluster without endpoints keeps a slice")
	require.Equal(t, [3]int{0, 0, 1}, plan(part("a", group(80, append(upTo(17), upTo(251)[18:]...)...))), "one that exports no more does not")
	require.Equal(t, [3]int{0, 0, 3}, plan())
}

// Whatever the changes, each endpoint is in one slice with its cluster's labels,
// and no slice is too large.
func TestPlanSlicesHoldsWhatIsWanted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var have []discoveryv1.EndpointSlice
	for range 200 {
		want := map[string]bool{}
		var shares []share
		for _, cluster := range []string{"a", "b", "c"}[:1+random.IntN(3)] {
			var groups []channel.Backends
			for port := range random.IntN(3) {
				var hosts []int
				for h := range 220 {
					if random.IntN(3) > 0 {
						hosts = append(hosts, h)
					}
				}
				g := group(int32(80+port), hosts...)
				groups = append(groups, g)
				for _, e := range g.Endpoints {
					want[cluster+" "+e.Address.String()+" "+string(rune('0'+port))] = true
				}
			}
			shares = append(shares, part(cluster, groups...))
		}
		have = applied(have, planSlices(owner, have, shares))
		got := map[string]bool{}
		clusters := map[string]bool{}
		for _, s := range have {
			require.LessOrEqual(t, len(s.Endpoints), perSlice)
			cluster := s.Labels[mcsv1beta1.LabelSourceCluster]
			clusters[cluster] = true
			require.Equal(t, DerivedName(nameOf(owner)), s.Labels[discoveryv1.LabelServiceName])
			require.Equal(t, ManagedBy, s.Labels[discoveryv1.LabelManagedBy])
			for _, e := range s.Endpoints {
				key := cluster + " " + e.Addresses[0] + " " + string(rune('0'+*s.Ports[0].Port-80))
				require.False(t, got[key], "twice: %s", key)
				got[key] = true
			}
		}
		require.Equal(t, want, got)
		require.Len(t, clusters, len(shares))
	}
}

// What slices hold is enough to know an export by, also while its endpoints are
// withheld.
func TestRecall(t *testing.T) {
	e := exportOf("b", 7, "http:80")
	e.Service.Affinity = 60e9
	e.Service.Backends = []channel.Backends{group(8080, upTo(150)...), group(8081, 3)}
	e.Service.Backends[0].Endpoints[3] = channel.Endpoint{Address: netip.MustParseAddr("10.1.0.3"), Serving: true, Terminating: true, Zone: "z", Hostname: "h"}
	views := Views{{original: netip.MustParsePrefix("10.1.0.0/16"), local: netip.MustParsePrefix("100.70.0.0/16")}}
	local, without := views.translate(e.Service.Backends)
	require.Zero(t, without)
	for _, withheld := range []bool{false, true} {
		s := share{cluster: e.Cluster, backends: local, note: note(e.Service, withheld)}
		if withheld {
			s.backends = nil
		}
		have := applied(nil, planSlices(owner, nil, []share{part("a", group(80, 9)), s}))
		require.Equal(t, e.Service, recall(have, e.Cluster, views.Original))
		require.Nil(t, recall(have, Cluster{Identity: identityOf("z")}, views.Original))
		for i := range have {
			have[i].Annotations[AnnotationExport] = "{"
		}
		require.Nil(t, recall(have, e.Cluster, views.Original))
	}
}

// What no probe has told since the controller began stays as slices say, and what
// was never in one waits for the first answer.
func TestWithheldWithoutMemory(t *testing.T) {
	e := exportOf("b", 7, "http:80")
	e.Service.Backends = []channel.Backends{group(8080, 1)}
	withheld := planned(share{cluster: e.Cluster, note: note(e.Service, true)})
	held := planned(share{cluster: e.Cluster, backends: e.Service.Backends, note: note(e.Service, false)})
	for _, test := range []struct {
		status                metav1.ConditionStatus
		reason                string
		withheld, held, never bool
	}{
		{metav1.ConditionFalse, "Probing", true, false, true},
		{metav1.ConditionFalse, "NotReady", true, false, true},
		{metav1.ConditionUnknown, "MeasurementsUnreadable", true, false, false},
		{metav1.ConditionFalse, "LinksDown", true, true, true},
		{metav1.ConditionTrue, "LinksUp", false, false, false},
	} {
		fc := connectedAs(test.status, test.reason)
		fc.Spec.Identity = e.Cluster.Identity
		for existing, want := range map[*[]discoveryv1.EndpointSlice]bool{&withheld: test.withheld, &held: test.held, {}: test.never} {
			require.Equal(t, want, (&Importer{Reach: Reached}).withheld(fc, *existing), "%s, %d slices", test.reason, len(*existing))
		}
	}
}

func planned(s share) []discoveryv1.EndpointSlice {
	return applied(nil, planSlices(owner, nil, []share{s}))
}

// The API server takes the note of whatever a peer may export.
func TestNoteIsBounded(t *testing.T) {
	e := exportOf("b", 7, "http:80")
	long := strings.Repeat("x", 63)
	g := group(8080, upTo(channel.MaxServiceEndpoints)...)
	for i := range g.Endpoints {
		g.Endpoints[i].Zone, g.Endpoints[i].Hostname = long, long
	}
	for i := range channel.MaxServicePorts - 1 {
		g.Ports = append(g.Ports, channel.BackendPort{Name: fmt.Sprintf("%s-%d", long[:59], i), Protocol: "TCP", Port: 1})
	}
	e.Service.Backends = []channel.Backends{g}
	for range channel.MaxBackendGroups - 1 {
		e.Service.Backends = append(e.Service.Backends, channel.Backends{Ports: g.Ports})
	}
	require.LessOrEqual(t, len(note(e.Service, true)), maxNote)
	recalled := recall(planned(share{cluster: e.Cluster, note: note(e.Service, true)}), e.Cluster, Views{}.Original)
	require.Equal(t, e.Service.Ports, recalled.Ports)
	require.Zero(t, recalled.Endpoints())
}

// A slice of somebody else that has the name stays, and is not in the way.
func TestSliceInTheWay(t *testing.T) {
	changes := planSlices(owner, nil, []share{part("a", group(80, 1))})
	taken := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: changes.create[0].Name}, AddressType: discoveryv1.AddressTypeIPv4}
	c := fake.NewClientBuilder().WithObjects(taken).Build()
	r := &Importer{Client: c}
	require.NoError(t, r.applySlices(t.Context(), changes))
	var list discoveryv1.EndpointSliceList
	require.NoError(t, c.List(t.Context(), &list, client.HasLabels{LabelSourceIdentity}))
	require.Len(t, list.Items, 1)
	require.Equal(t, [3]int{}, planSlices(owner, list.Items, []share{part("a", group(80, 1))}).counts(), "it is kept")
	// What the cache does not show is no reason for another one.
	again := changes.create[0].DeepCopy()
	again.GenerateName, again.ResourceVersion = "", ""
	require.True(t, apierrors.IsAlreadyExists(r.createSlice(t.Context(), again)))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(taken), taken))
	require.Empty(t, taken.Endpoints)
}
