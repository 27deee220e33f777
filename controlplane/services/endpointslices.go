package services

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// perSlice is how many endpoints a slice holds at most, as with those that
// Kubernetes makes.
const perSlice = 100

// share is what one cluster's slices shall hold.
type share struct {
	cluster Cluster
	// backends in local view.
	backends []channel.Backends
	// note is the export, for AnnotationExport.
	note string
}

// sliceChanges make the slices as they shall be, in this order: what is new is
// there before what is old goes.
type sliceChanges struct {
	create, update []*discoveryv1.EndpointSlice
	remove         []*discoveryv1.EndpointSlice
}

// planSlices returns what is to be changed of the slices of an import. Endpoints
// stay in the slice that they are in, so a change costs a slice or two. Every
// source has one slice at least, which holds its note. It is pure.
func planSlices(i *mcsv1beta1.ServiceImport, existing []discoveryv1.EndpointSlice, shares []share) sliceChanges {
	p := slicePlan{owner: i, taken: map[string]bool{}, left: map[string]*discoveryv1.EndpointSlice{}}
	for n := range existing {
		p.taken[existing[n].Name], p.left[existing[n].Name] = true, &existing[n]
	}
	for _, s := range shares {
		p.share(s)
	}
	for _, name := range slices.Sorted(maps.Keys(p.left)) {
		p.changes.remove = append(p.changes.remove, p.left[name])
	}
	return p.changes
}

type slicePlan struct {
	owner   *mcsv1beta1.ServiceImport
	taken   map[string]bool
	left    map[string]*discoveryv1.EndpointSlice // not used again yet
	changes sliceChanges
}

// of lists the slices of a cluster that are left, by name.
func (p *slicePlan) of(c Cluster) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, name := range slices.Sorted(maps.Keys(p.left)) {
		if p.left[name].Labels[LabelSourceIdentity] == string(c.Identity) {
			out = append(out, p.left[name])
		}
	}
	return out
}

func (p *slicePlan) share(s share) {
	used := 0
	for _, group := range s.backends {
		used += p.group(s, group)
	}
	if used > 0 {
		return
	}
	if have := p.of(s.cluster); len(have) > 0 {
		p.keep(s, have[0], nil, nil)
		return
	}
	p.make(s, nil, nil)
}

// group places endpoints that listen at the same ports and returns how many
// slices hold them.
func (p *slicePlan) group(s share, group channel.Backends) int {
	ports := slicePorts(group.Ports)
	want := map[string]discoveryv1.Endpoint{}
	var order []string
	for _, e := range group.Endpoints {
		address := e.Address.String()
		want[address] = sliceEndpoint(e)
		order = append(order, address)
	}
	type placed struct {
		slice     *discoveryv1.EndpointSlice
		endpoints []discoveryv1.Endpoint
	}
	var have []placed
	for _, slice := range p.of(s.cluster) {
		if !equality.Semantic.DeepEqual(slice.Ports, ports) {
			continue
		}
		h := placed{slice: slice}
		for _, e := range slice.Endpoints {
			if wanted, ok := want[addressOf(e)]; ok && len(h.endpoints) < perSlice {
				h.endpoints = append(h.endpoints, wanted)
				delete(want, addressOf(e))
			}
		}
		have = append(have, h)
	}
	next := func() (discoveryv1.Endpoint, bool) {
		for len(order) > 0 {
			e, ok := want[order[0]]
			order = order[1:]
			if ok {
				return e, true
			}
		}
		return discoveryv1.Endpoint{}, false
	}
	used := 0
	for _, h := range have {
		for len(h.endpoints) < perSlice {
			e, ok := next()
			if !ok {
				break
			}
			h.endpoints = append(h.endpoints, e)
		}
		if len(h.endpoints) > 0 {
			p.keep(s, h.slice, ports, h.endpoints)
			used++
		}
	}
	for {
		var endpoints []discoveryv1.Endpoint
		for len(endpoints) < perSlice {
			e, ok := next()
			if !ok {
				break
			}
			endpoints = append(endpoints, e)
		}
		if len(endpoints) == 0 {
			return used
		}
		p.make(s, ports, endpoints)
		used++
	}
}

// keep uses a slice that exists.
func (p *slicePlan) keep(s share, slice *discoveryv1.EndpointSlice, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) {
	delete(p.left, slice.Name)
	changed := slice.DeepCopy()
	p.fill(changed, s, ports, endpoints)
	if !same(slice, changed) {
		p.changes.update = append(p.changes.update, changed)
	}
}

// make makes another one.
func (p *slicePlan) make(s share, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) {
	base := DerivedName(nameOf(p.owner)) + "-" + string(s.cluster.Identity)[:8]
	name := base
	for n := 1; p.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	p.taken[name] = true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: p.owner.Namespace, Name: name},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	p.fill(slice, s, ports, endpoints)
	p.changes.create = append(p.changes.create, slice)
}

func (p *slicePlan) fill(slice *discoveryv1.EndpointSlice, s share, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) {
	slice.Labels = overlay(slice.Labels, map[string]string{
		discoveryv1.LabelServiceName:  DerivedName(nameOf(p.owner)),
		discoveryv1.LabelManagedBy:    ManagedBy,
		LabelManagedBy:                ManagedBy,
		mcsv1beta1.LabelServiceName:   p.owner.Name,
		mcsv1beta1.LabelSourceCluster: s.cluster.Name,
		LabelSourceIdentity:           string(s.cluster.Identity),
	})
	slice.Annotations = overlay(slice.Annotations, map[string]string{AnnotationExport: s.note})
	slice.OwnerReferences = ownedBy(p.owner)
	slice.Ports, slice.Endpoints = ports, endpoints
	if endpoints == nil {
		slice.Endpoints = []discoveryv1.Endpoint{} // the field must be there
	}
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// same compares objects without telling nil from empty.
func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

func addressOf(e discoveryv1.Endpoint) string {
	if len(e.Addresses) == 0 {
		return ""
	}
	return e.Addresses[0]
}

func slicePorts(ports []channel.BackendPort) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, p := range ports {
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port})
	}
	return out
}

func sliceEndpoint(e channel.Endpoint) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{e.Address.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &e.Ready, Serving: &e.Serving, Terminating: &e.Terminating},
		Zone:       optional(e.Zone), Hostname: optional(e.Hostname),
	}
}

// maxNote in bytes: the annotations of an object have 256 KiB in all.
const maxNote = 200 << 10

// note returns an export as it stands on slices: its endpoints are those of the
// slices, unless they are withheld. Where they have no room they are left out, for
// the peer to tell again.
func note(s *channel.Service, withheld bool) string {
	noted := *s
	if !withheld {
		noted.Backends = nil
	}
	text, err := json.Marshal(noted)
	if err == nil && len(text) > maxNote {
		noted.Backends = nil
		text, err = json.Marshal(noted)
	}
	if err != nil {
		return "" // nothing in it has a form that JSON lacks
	}
	return string(text)
}

// withheldBefore reports whether a cluster's slices are there, and whether they
// stand for endpoints that are withheld.
func withheldBefore(existing []discoveryv1.EndpointSlice, id v1alpha1.Identity) (withheld, there bool) {
	for i := range existing {
		if existing[i].Labels[LabelSourceIdentity] != string(id) {
			continue
		}
		var noted channel.Service
		err := json.Unmarshal([]byte(existing[i].Annotations[AnnotationExport]), &noted)
		withheld, there = withheld || err == nil && len(noted.Backends) > 0, true
	}
	return withheld, there
}

// recall returns the export that a cluster's slices come from, nil if they do not
// say.
func recall(existing []discoveryv1.EndpointSlice, cluster Cluster, original func(netip.Addr) (netip.Addr, bool)) *channel.Service {
	var own []discoveryv1.EndpointSlice
	var out *channel.Service
	for _, slice := range existing {
		if slice.Labels[LabelSourceIdentity] != string(cluster.Identity) {
			continue
		}
		own = append(own, slice)
		var noted channel.Service
		if err := json.NewDecoder(strings.NewReader(slice.Annotations[AnnotationExport])).Decode(&noted); err != nil || noted.Created.IsZero() {
			continue
		}
		if out == nil || len(out.Backends) == 0 {
			out = &noted
		}
	}
	if out != nil && len(out.Backends) == 0 {
		out.Backends, _ = limit(backendsOf(own, original, nil))
	}
	return out
}
