package controlplane

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/services"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// servicesAPI makes an API server know the kinds of services.
func servicesAPI(t *testing.T, scheme *runtime.Scheme) []client.Object {
	t.Helper()
	require.NoError(t, mcsv1beta1.Install(scheme))
	return []client.Object{&mcsv1beta1.ServiceExport{}, &mcsv1beta1.ServiceImport{}}
}

// allocate does what the API server does with a Service.
func allocate(object client.Object) {
	if s, ok := object.(*corev1.Service); ok && s.Spec.ClusterIP == "" {
		s.Spec.ClusterIP = "10.96.0." + fmt.Sprint(len(s.Name)+len(s.Namespace))
	}
}

// share runs a turn of both halves of services.
func (s *side) share(clusters []v1alpha1.ForeignCluster) {
	s.t.Helper()
	exporter, importer := s.services.Exporter, s.services.Importer
	run := func(r interface {
		Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error)
	}, name types.NamespacedName) {
		_, err := r.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: name})
		require.NoError(s.t, err)
	}
	run(exporter, types.NamespacedName{})
	var exports mcsv1beta1.ServiceExportList
	require.NoError(s.t, s.client.List(s.t.Context(), &exports))
	for i := range exports.Items {
		run(exporter, client.ObjectKeyFromObject(&exports.Items[i]))
	}
	names, err := importer.Names(s.t.Context())
	require.NoError(s.t, err)
	for name := range names {
		run(importer, name)
	}
	for i := range clusters {
		run(importer, types.NamespacedName{Name: clusters[i].Name})
	}
}

// sharing are clusters that are all peers of each other, and tell each other all
// services.
func sharing(t *testing.T, names ...string) []*side {
	t.Helper()
	var sides []*side
	for _, name := range names {
		sides = append(sides, newSide(t, name))
	}
	pairs := func(do func(s, other *side)) {
		for _, s := range sides {
			for _, other := range sides {
				if s != other {
					do(s, other)
				}
			}
		}
	}
	pairs(func(s, other *side) { s.connect(other) })
	until(t, "all are ready", func() bool { return !slices.ContainsFunc(sides, func(s *side) bool { return !s.isReady() }) }, sides...)
	pairs(func(s, other *side) {
		fc := s.foreign(other)
		fc.Spec.Access.Services = v1alpha1.ServicesSpec{Export: v1alpha1.ServicesAll, Import: v1alpha1.ServicesAll}
		s.create(fc)
	})
	until(t, "all are connected", func() bool {
		ok := true
		pairs(func(s, other *side) { ok = ok && connected(s, other.name)() })
		return ok
	}, sides...)
	return sides
}

func (s *side) namespace(name string) {
	s.t.Helper()
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// serve makes a service with backends, and exports it.
func (s *side) serve(name types.NamespacedName, addresses ...string) {
	s.t.Helper()
	s.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	})
	port, http := int32(8080), "http"
	s.create(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: name.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &http, Port: &port}},
	})
	s.scale(name, addresses...)
	s.create(&mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}})
}

func (s *side) scale(name types.NamespacedName, addresses ...string) {
	s.t.Helper()
	var slice discoveryv1.EndpointSlice
	require.NoError(s.t, s.client.Get(s.t.Context(), types.NamespacedName{Namespace: name.Namespace, Name: name.Name + "-x"}, &slice))
	slice.Endpoints = nil
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	require.NoError(s.t, s.client.Update(s.t.Context(), &slice))
}

// backends are the addresses that are ready behind an import, in order, with
// their ports.
func (s *side) backends(name types.NamespacedName) []string {
	s.t.Helper()
	var list discoveryv1.EndpointSliceList
	require.NoError(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(name.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: services.DerivedName(name)}))
	out := []string{}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if *e.Conditions.Ready {
				out = append(out, fmt.Sprintf("%s:%d", e.Addresses[0], *slice.Ports[0].Port))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (s *side) has(name types.NamespacedName, want ...string) func() bool {
	slices.Sort(want)
	return func() bool { return s.imported(name) != nil && slices.Equal(want, s.backends(name)) }
}

func (s *side) imported(name types.NamespacedName) *mcsv1beta1.ServiceImport {
	s.t.Helper()
	var i mcsv1beta1.ServiceImport
	if err := s.client.Get(s.t.Context(), name, &i); err != nil {
		require.NoError(s.t, client.IgnoreNotFound(err))
		return nil
	}
	return &i
}

// bare reports whether nothing is left of an import.
func (s *side) bare(name types.NamespacedName) func() bool {
	return func() bool {
		err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: name.Namespace, Name: services.DerivedName(name)}, &corev1.Service{})
		var list discoveryv1.EndpointSliceList
		require.NoError(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(name.Namespace), client.MatchingLabels{mcsv1beta1.LabelServiceName: name.Name}))
		return s.imported(name) == nil && err != nil && len(list.Items) == 0
	}
}

// view of another cluster's address, with the backend's port.
func (s *side) view(other, address string) string {
	s.t.Helper()
	local, ok := services.ViewsOf(s.neighbor(other)).Local(netip.MustParseAddr(address))
	require.True(s.t, ok)
	return local.String() + ":8080"
}

func (s *side) exportCondition(name types.NamespacedName, kind mcsv1beta1.ServiceExportConditionType) string {
	s.t.Helper()
	var export mcsv1beta1.ServiceExport
	require.NoError(s.t, s.client.Get(s.t.Context(), name, &export))
	c := meta.FindStatusCondition(export.Status.Conditions, string(kind))
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// b exports a service; a, where the namespace is made only later, gets it under
// addresses of its own, and follows what becomes of it.
func TestServiceOfAnother(t *testing.T) {
	sides := sharing(t, "a", "b")
	a, b := sides[0], sides[1]
	var node corev1.Node
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Name: "b2"}, &node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.2"}}
	require.NoError(t, b.client.Status().Update(t.Context(), &node))

	b.namespace("shop")
	// A pod, one in its node's network, and one that lies in no exported network.
	b.serve(web, "10.244.0.9", "192.0.2.2", "203.0.113.5")
	until(t, "b has its own", b.has(web, "10.244.0.9:8080", "192.0.2.2:8080", "203.0.113.5:8080"), a, b)
	until(t, "a says what is missing", func() bool {
		return a.condition("b", v1alpha1.ConditionServices) == "False NamespaceMissing: 0 of 1 services that b exports are imported; there is no namespace shop here: create what shall have them"
	}, a, b)
	require.Nil(t, a.imported(web))
	a.namespace("shop")
	until(t, "a has it", a.has(web, a.view("b", "10.244.0.9")), a, b)
	i := a.imported(web)
	require.Equal(t, mcsv1beta1.ClusterSetIP, i.Spec.Type)
	require.Len(t, i.Spec.IPs, 1)
	require.Equal(t, []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}, i.Spec.Ports)
	require.Equal(t, []mcsv1beta1.ClusterStatus{{Cluster: "b"}}, i.Status.Clusters)
	require.True(t, meta.IsStatusConditionTrue(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)))
	until(t, "said", func() bool {
		return contains(a.condition("b", v1alpha1.ConditionServices), "True Imported: 1 of 1")
	}, a, b)
	require.Equal(t, "True Valid: the Service can be exported", b.exportCondition(web, mcsv1beta1.ServiceExportConditionValid))
	require.Equal(t, "True Exported: exported to a; 1 endpoints are left out: they are on the host network, where other clusters get no answer; "+
		"1 endpoints are left out: no exported network holds them", b.exportCondition(web, mcsv1beta1.ServiceExportConditionReady))
	require.Contains(t, b.exportCondition(web, mcsv1beta1.ServiceExportConditionConflict), "False NoConflicts")

	b.scale(web, "10.244.0.9", "10.244.1.3", "10.244.1.4")
	until(t, "scaled up", a.has(web, a.view("b", "10.244.0.9"), a.view("b", "10.244.1.3"), a.view("b", "10.244.1.4")), a, b)
	b.scale(web, "192.0.2.2")
	until(t, "scaled down", a.has(web), a, b)
	until(t, "said why", func() bool {
		return contains(b.exportCondition(web, mcsv1beta1.ServiceExportConditionReady), "False HostNetworkNotSupported: all 1 endpoints are on the host network")
	}, a, b)
	require.Equal(t, i.Spec.IPs, a.imported(web).Spec.IPs)
	require.NoError(t, b.client.Delete(t.Context(), &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}))
	until(t, "gone from both", func() bool { return a.bare(web)() && b.bare(web)() }, a, b)
	until(t, "nothing is said any more", func() bool { return a.condition("b", v1alpha1.ConditionServices) == "" }, a, b)
}

// The path to b is cut: its endpoints leave, the name stays; they return with the
// path, whatever has happened to controllers and channel meanwhile.
func TestServiceOfAnUnreachableCluster(t *testing.T) {
	sides := sharing(t, "a", "b")
	a, b := sides[0], sides[1]
	a.namespace("shop")
	b.namespace("shop")
	b.serve(web, "10.244.0.9", "10.244.0.10")
	both := []string{a.view("b", "10.244.0.9"), a.view("b", "10.244.0.10")}
	until(t, "a has it", a.has(web, both...), a, b)
	before := a.imported(web)

	a.down = map[string]bool{"b": true}
	until(t, "they leave", a.has(web), a, b)
	a.down = nil
	until(t, "they return", a.has(web, both...), a, b)

	a.down = map[string]bool{"b": true}
	until(t, "they leave again", a.has(web), a, b)
	b.stop()
	a.restart()
	for range 20 {
		a.turn()
	}
	require.Empty(t, a.backends(web))
	a.down = nil
	until(t, "they return without b's controller", a.has(web, both...), a)
	require.Equal(t, before.UID, a.imported(web).UID)
	require.Equal(t, before.Spec, a.imported(web).Spec)
}

// Controllers stop and begin again, and the channel is lost: what was imported
// stays, until the other side says otherwise.
func TestServicesOutliveControllers(t *testing.T) {
	sides := sharing(t, "a", "b")
	a, b := sides[0], sides[1]
	a.namespace("shop")
	b.namespace("shop")
	old := types.NamespacedName{Namespace: "shop", Name: "old"}
	b.serve(web, "10.244.0.9")
	b.serve(old, "10.244.0.20")
	until(t, "a has both", func() bool {
		return a.has(web, a.view("b", "10.244.0.9"))() && a.has(old, a.view("b", "10.244.0.20"))()
	}, a, b)
	written := a.versions()
	b.stop()
	a.restart()
	for range 20 {
		a.turn()
	}
	require.Equal(t, written, a.versions(), "nothing was written")
	require.Contains(t, a.condition("b", v1alpha1.ConditionChannelReady), "False")

	// b's controller comes back to find that one export is gone.
	require.NoError(t, b.client.Delete(t.Context(), &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}}))
	b.start()
	a.connect(b)
	b.connect(a)
	until(t, "a is told", a.bare(old), a, b)
	require.True(t, a.has(web, a.view("b", "10.244.0.9"))())

	// Unpeering ends the rest.
	require.NoError(t, a.client.Delete(t.Context(), &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
	until(t, "gone", a.bare(web), a, b)
}

// versions of all that services consist of.
func (s *side) versions() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{&mcsv1beta1.ServiceImportList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}} {
		require.NoError(s.t, s.client.List(s.t.Context(), list))
		require.NoError(s.t, meta.EachListItem(list, func(object runtime.Object) error {
			o := object.(client.Object)
			out[fmt.Sprintf("%T %s", o, o.GetName())] = o.GetResourceVersion()
			return nil
		}))
	}
	return out
}

// Three clusters export the same name: one service with all backends in each, the
// oldest export's port, and a condition where another has to give way.
func TestServiceOfThree(t *testing.T) {
	sides := sharing(t, "a", "b", "c")
	a, b, c := sides[0], sides[1], sides[2]
	for _, s := range sides {
		s.namespace("shop")
	}
	c.serve(web, "10.244.0.7")
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // exports are dated to the second
	a.serve(web, "10.244.0.5")
	b.serve(web, "10.244.0.6")
	var service corev1.Service
	require.NoError(t, b.client.Get(t.Context(), web, &service))
	service.Spec.Ports[0].Port = 8000
	require.NoError(t, b.client.Update(t.Context(), &service))

	until(t, "each has all", func() bool {
		return a.has(web, "10.244.0.5:8080", a.view("b", "10.244.0.6"), a.view("c", "10.244.0.7"))() &&
			b.has(web, "10.244.0.6:8080", b.view("a", "10.244.0.5"), b.view("c", "10.244.0.7"))() &&
			c.has(web, "10.244.0.7:8080", c.view("a", "10.244.0.5"), c.view("b", "10.244.0.6"))()
	}, sides...)
	conflict := "True PortConflict: port http (8000/TCP) of b gives way to http (80/TCP) of c"
	for _, s := range sides {
		until(t, "the conflict is said", func() bool { return s.exportCondition(web, mcsv1beta1.ServiceExportConditionConflict) == conflict }, sides...)
		require.EqualValues(t, 80, s.imported(web).Spec.Ports[0].Port)
		require.Len(t, s.imported(web).Status.Clusters, 3)
	}
	// The oldest goes: the next decides, by cluster ID, for a and b are of one second
	// or a is older.
	require.NoError(t, c.client.Delete(t.Context(), &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}))
	until(t, "the others stay", func() bool {
		return c.has(web, c.view("a", "10.244.0.5"), c.view("b", "10.244.0.6"))() &&
			strings.Contains(b.exportCondition(web, mcsv1beta1.ServiceExportConditionConflict), "gives way to http (80/TCP) of a")
	}, sides...)
}

// What a policy does not allow is not told, and not imported.
func TestServicePolicy(t *testing.T) {
	sides := sharing(t, "a", "b")
	a, b := sides[0], sides[1]
	secret := types.NamespacedName{Namespace: "vault", Name: "web"}
	for _, s := range sides {
		s.namespace("shop")
		s.namespace("vault")
	}
	b.serve(web, "10.244.0.9")
	b.serve(secret, "10.244.0.10")
	until(t, "a has both", func() bool { return a.imported(web) != nil && a.imported(secret) != nil }, a, b)
	set := func(s *side, name string, access v1alpha1.ServicesSpec) {
		var fc v1alpha1.ForeignCluster
		require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Name: name}, &fc))
		fc.Spec.Access.Services = access
		require.NoError(t, s.client.Update(t.Context(), &fc))
	}
	set(b, "a", v1alpha1.ServicesSpec{Export: v1alpha1.ServicesSelected, ExportNamespaces: []string{"shop"}})
	until(t, "a is not told of one any more", a.bare(secret), a, b)
	require.NotNil(t, a.imported(web))
	until(t, "b says so", func() bool {
		return contains(b.exportCondition(secret, mcsv1beta1.ServiceExportConditionReady), "False Pending: no peer is told of it")
	}, a, b)
	set(a, "b", v1alpha1.ServicesSpec{Import: v1alpha1.ServicesSelected, ImportNamespaces: []string{"other"}})
	until(t, "a takes the other no more", a.bare(web), a, b)
	set(a, "b", v1alpha1.ServicesSpec{Import: v1alpha1.ServicesAll})
	until(t, "and takes it again", a.has(web, a.view("b", "10.244.0.9")), a, b)
}

// What others made is left alone, and said where it is in the way; what a user
// deletes of ours is made again.
func TestServiceInTheWay(t *testing.T) {
	a := newSide(t, "a")
	until(t, "ready", a.isReady, a)
	a.namespace("shop")
	foreign := types.NamespacedName{Namespace: "shop", Name: "foreign"}
	theirs := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreign"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless, Ports: []mcsv1beta1.ServicePort{}}}
	taken := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: services.DerivedName(web)}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.9.9"}}
	a.create(theirs)
	a.create(taken)
	a.serve(web, "10.244.0.9")
	a.serve(foreign, "10.244.0.9")
	ready := func() string {
		c := meta.FindStatusCondition(a.imported(web).Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
		return string(c.Status) + " " + c.Reason
	}
	until(t, "said", func() bool { return a.imported(web) != nil && ready() == "False NotManagedByWeft" }, a)
	require.Empty(t, a.imported(web).Spec.IPs)
	require.Empty(t, a.backends(web))
	require.Equal(t, theirs.Spec, a.imported(foreign).Spec)
	require.Equal(t, "False Pending: no peer is told of it: allow the namespace in access.services.export of a ForeignCluster (namespace shop)",
		a.exportCondition(web, mcsv1beta1.ServiceExportConditionReady))

	require.NoError(t, a.client.Delete(t.Context(), taken))
	until(t, "out of the way", a.has(web, "10.244.0.9:8080"), a)
	require.Equal(t, "True Ready", ready())
	require.NoError(t, a.client.Delete(t.Context(), a.imported(web)))
	require.NoError(t, a.client.DeleteAllOf(t.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace("shop"), client.MatchingLabels{discoveryv1.LabelServiceName: services.DerivedName(web)}))
	until(t, "made again", a.has(web, "10.244.0.9:8080"), a)

	// A headless Service says why it is not exported, and its import ends.
	var service corev1.Service
	require.NoError(t, a.client.Get(t.Context(), web, &service))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	require.NoError(t, a.client.Update(t.Context(), &service))
	until(t, "not exported", a.bare(web), a)
	require.Contains(t, a.exportCondition(web, mcsv1beta1.ServiceExportConditionReady), "False HeadlessNotSupported")
	require.Empty(t, a.exportCondition(web, mcsv1beta1.ServiceExportConditionConflict))
}
