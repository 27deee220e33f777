package services

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/controlplane/channel"
	fabricpeering "github.com/weft-fabric/weft/controlplane/peering"
	"github.com/weft-fabric/weft/controlplane/services"
)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func inShop(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{labelManagedBy: managedByWeft}}
}

func exported(name string, conditions ...metav1.Condition) *mcsv1beta1.ServiceExport {
	e := &mcsv1beta1.ServiceExport{ObjectMeta: inShop(name)}
	e.Status.Conditions = conditions
	return e
}

var valid, told = condition("Valid", "True", "Valid", ""), condition("Ready", "True", "Exported", "exported to b, c")

func imported(name string, clusters ...string) *mcsv1beta1.ServiceImport {
	i := &mcsv1beta1.ServiceImport{ObjectMeta: inShop(name)}
	i.Spec = mcsv1beta1.ServiceImportSpec{
		Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.96.3.4"}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
	}
	i.Status.Conditions = []metav1.Condition{condition("Ready", "True", "Ready", "")}
	for _, c := range clusters {
		i.Status.Clusters = append(i.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: c})
	}
	return i
}

// slice holds endpoints of a cluster; those with a minus in front are not ready.
func slice(service, cluster, name string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: inShop(name), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels[discoveryv1.LabelManagedBy] = managedByWeft
	s.Labels[mcsv1beta1.LabelServiceName], s.Labels[mcsv1beta1.LabelSourceCluster] = service, cluster
	s.Labels[labelSourceIdentity] = "id-" + cluster
	for _, address := range addresses {
		ready := !strings.HasPrefix(address, "-")
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{strings.TrimPrefix(address, "-")}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return s
}

// withheld notes the endpoints as weft-controller does while a cluster is away.
func withheld(t *testing.T, s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	t.Helper()
	endpoints := []channel.Endpoint{{Address: netip.MustParseAddr("10.0.0.1")}, {Address: netip.MustParseAddr("10.0.0.2")}}
	text, err := json.Marshal(channel.Service{Backends: []channel.Backends{{Endpoints: endpoints}, {Endpoints: endpoints[:1]}}})
	require.NoError(t, err)
	s.Annotations = map[string]string{annotationExport: string(text)}
	return s
}

func peer(name string, conditions ...metav1.Condition) *v1alpha1.ForeignCluster {
	fcl := &v1alpha1.ForeignCluster{}
	fcl.Name, fcl.Spec.Identity = name, v1alpha1.Identity("id-"+name)
	fcl.Spec.Access.Services = v1alpha1.ServicesSpec{Export: v1alpha1.ServicesAll, Import: v1alpha1.ServicesAll}
	fcl.Status.Conditions = conditions
	return fcl
}

var (
	up   = condition("Connected", "True", fabricpeering.ReasonLinksUp, "")
	down = condition("Connected", "False", fabricpeering.ReasonLinksDown, "0 of 1 links up")
)

// reported is what cluster a says, whose API server holds the objects.
func reported(t *testing.T, objects ...client.Object) Report {
	t.Helper()
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	config := &v1alpha1.FabricConfig{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FabricConfigName}}
	config.Spec.ClusterID, config.Status.Identity = "a", "id-a"
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, config)...).Build()
	in, err := Collect(t.Context(), c)
	require.NoError(t, err)
	return Make(in)
}

func text(r Report) string {
	var out strings.Builder
	r.Text(&out)
	return out.String()
}

// What is well: an endpoint that listens at two ports is in two slices and counts
// once, and slices of users' own Services do not count.
func TestServicesOfThreeClusters(t *testing.T) {
	other := slice("web", "b", "web-users", "10.9.9.9")
	other.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
	c := peer("c", up, condition("Services", "True", "Imported", "1 of 1 services that c exports are imported"))
	c.Spec.Access.Services = v1alpha1.ServicesSpec{Import: v1alpha1.ServicesSelected, ImportNamespaces: []string{"shop", "eu"}}
	r := reported(t, peer("b", up), c,
		exported("web", valid, told), imported("web", "a", "b", "c"), other,
		slice("web", "a", "web-a", "10.1.0.1"), slice("web", "b", "web-b-1", "100.1.0.1", "-100.1.0.2"), slice("web", "b", "web-b-2", "100.1.0.1"), slice("web", "c", "web-c"))
	require.True(t, r.Healthy, r.Problems)
	require.Len(t, r.Services, 1)
	require.Equal(t, []Cluster{
		{Name: "a", Identity: "id-a", Own: true, Reachable: Reached, Endpoints: 1, Ready: 1},
		{Name: "b", Identity: "id-b", Reachable: Reached, Endpoints: 2, Ready: 1},
		{Name: "c", Identity: "id-c", Reachable: Reached},
	}, r.Services[0].Clusters)
	require.Equal(t, "web.shop.svc.clusterset.local", r.Services[0].Import.Host)
	require.Equal(t, `SERVICE   EXPORTED HERE  IMPORTED HERE  PORTS        FROM      ENDPOINTS     REACHED
shop/web  yes            at 10.96.3.4   http 80/TCP  a (here)  1 of 1 ready  yes
                                                     b         1 of 2 ready  yes
                                                     c         0 of 0 ready  yes

PEER  MAY IMPORT OURS  WE IMPORT ITS      STATE
b     all              all                -
c     none             those in shop, eu  1 of 1 services that c exports are imported

DNS: it cannot be told whether the cluster's DNS forwards clusterset.local: there is no Service weft-dns in namespace weft-system: run `+"`weftctl install`"+` first.

All is well.
`, text(r))
}

// B is cut off: its endpoints are left out, which is told once, of B.
func TestUnreachedCluster(t *testing.T) {
	r := reported(t, peer("b", down), imported("web", "b"), withheld(t, slice("web", "b", "web-b")), imported("api", "b"), withheld(t, slice("api", "b", "api-b")))
	require.Equal(t, Cluster{Name: "b", Identity: "id-b", Reachable: NotReached, Withheld: 2}, r.Services[0].Clusters[0])
	require.Len(t, r.Problems, 1)
	require.Equal(t, "cluster b", r.Problems[0].Object)
	require.Equal(t, "it is not reached, so its 4 endpoints are left out of 2 services until it is", r.Problems[0].What)
	require.Contains(t, text(r), "2 left out  no")
}

// An agent that cannot be read is no finding, and changes nothing.
func TestUnmeasuredCluster(t *testing.T) {
	r := reported(t, peer("b", condition("Connected", "Unknown", fabricpeering.ReasonUnreadable, "")), imported("web", "b"), slice("web", "b", "web-b", "100.1.0.1"))
	require.Equal(t, Unmeasured, r.Services[0].Clusters[0].Reachable)
	require.True(t, r.Healthy, r.Problems)
}

// Each thing that is wrong has its cause and its remedy.
func TestProblems(t *testing.T) {
	wrong := func(reason, message string) metav1.Condition { return condition("Valid", "False", reason, message) }
	unready := func(reason, message string) metav1.Condition { return condition("Ready", "False", reason, message) }
	failing := func(reason string) *mcsv1beta1.ServiceImport {
		i := imported("web", "b")
		i.Status.Conditions = []metav1.Condition{unready(reason, "why")}
		return i
	}
	theirs := imported("web", "b")
	theirs.Labels = nil
	unseen := imported("web", "b")
	unseen.Status.Conditions = nil
	services := func(reason string) *v1alpha1.ForeignCluster {
		return peer("b", up, condition("Services", "False", reason, "why"))
	}
	for name, test := range map[string]struct {
		objects  []client.Object
		what, do string
	}{
		"not looked at":    {[]client.Object{exported("web")}, "not looked at", "logs deployment/weft-controller"},
		"no Service":       {[]client.Object{exported("web", wrong("NoService", "there is no Service"))}, "there is no Service", "create Service shop/web; or kubectl -n shop delete serviceexport web"},
		"ExternalName":     {[]client.Object{exported("web", wrong("InvalidServiceType", "why"))}, "why", "export the Service that has the endpoints"},
		"ports":            {[]client.Object{exported("web", wrong(reasonInvalidPorts, "why"))}, "why", "kubectl -n shop edit service web"},
		"headless":         {[]client.Object{exported("web", valid, unready(reasonHeadlessNotSupported, "why"))}, "why", "kubectl -n shop edit service web"},
		"no peer":          {[]client.Object{exported("web", valid, unready("Pending", "why"))}, "why", "weftctl peer"},
		"no peer is told":  {[]client.Object{peer("b", up), exported("web", valid, unready("Pending", "why"))}, "why", "--export-services All"},
		"too many":         {[]client.Object{exported("web", valid, unready("Failed", "why"))}, "why", "export less"},
		"conflict":         {[]client.Object{exported("web", valid, told, condition("Conflict", "True", "PortConflict", "port 80 gives way"))}, "the oldest counts: port 80 gives way", "make Service shop/web the same"},
		"in the way":       {[]client.Object{failing(reasonNotOurs)}, "why", "kubectl -n shop delete service NAME"},
		"headless import":  {[]client.Object{failing(reasonHeadlessNotSupported)}, "why", "give the Service a cluster IP"},
		"no IP":            {[]client.Object{failing("Pending")}, "why", "kubectl -n shop get events"},
		"import not ready": {[]client.Object{unseen}, "not completed it yet", "logs"},
		"another's import": {[]client.Object{theirs, exported("web", valid, told)}, "another program made it", "kubectl -n shop delete serviceimport web"},
		"no endpoint":      {[]client.Object{peer("b", up), imported("web", "b"), slice("web", "b", "x", "-100.1.0.1")}, "no endpoint is ready in b", "exported network"},
		"no namespace":     {[]client.Object{services(reasonNamespaceMissing)}, "why", "kubectl create namespace"},
		"refused":          {[]client.Object{services(reasonServicesRefused)}, "why", "change these exports in b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reported(t, test.objects...)
			require.False(t, r.Healthy)
			require.Len(t, r.Problems, 1)
			require.Contains(t, r.Problems[0].What, test.what)
			require.Contains(t, r.Problems[0].Do, test.do)
			require.Contains(t, text(r), "Do: "+r.Problems[0].Do)
		})
	}
	theirsAlone := reported(t, theirs)
	require.True(t, theirsAlone.Healthy, "it is no concern of Weft's where nothing is exported here")
	require.Contains(t, text(theirsAlone), "by another program")
}

// Without the CRDs nothing else works either, so it is told alone.
func TestWithoutCRDs(t *testing.T) {
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	config := &v1alpha1.FabricConfig{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FabricConfigName}}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(config).Build(), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*mcsv1beta1.ServiceExportList); ok {
				return &meta.NoKindMatchError{}
			}
			return inner.List(ctx, list, options...)
		},
	})
	in, err := Collect(t.Context(), c)
	require.NoError(t, err)
	r := Make(in)
	require.Len(t, r.Problems, 1)
	require.Contains(t, r.Problems[0].What, "does not serve it")
	require.Contains(t, text(r), "exports and imports no service")
}

// The names are those that the controller writes.
func TestNamesOfTheController(t *testing.T) {
	require.Equal(t, []string{
		services.LabelManagedBy, services.ManagedBy, services.LabelSourceIdentity, services.AnnotationExport, fabricpeering.ReasonLinksDown,
		services.ReasonInvalidPorts, services.ReasonHeadlessNotSupported, services.ReasonFamilyNotSupported, services.ReasonHostNetwork,
		services.ReasonNotOurs, services.ReasonNamespaceMissing, services.ReasonServicesRefused,
	}, []string{
		labelManagedBy, managedByWeft, labelSourceIdentity, annotationExport, reasonLinksDown,
		reasonInvalidPorts, reasonHeadlessNotSupported, reasonFamilyNotSupported, reasonHostNetwork,
		reasonNotOurs, reasonNamespaceMissing, reasonServicesRefused,
	})
}
