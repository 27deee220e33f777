package services

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

var own = AddressesOf(
	[]v1alpha1.OwnNetwork{{Name: "pods", Kind: v1alpha1.NetworkPod, CIDR: "10.0.0.0/8"}, {Name: "nodes", Kind: v1alpha1.NetworkNode, CIDR: "100.64.0.0/20"}},
	[]v1alpha1.FabricNode{
		{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1alpha1.FabricNodeSpec{FabricAddress: "100.64.0.1"}, Status: v1alpha1.FabricNodeStatus{UnderlayAddress: "10.9.0.1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: v1alpha1.FabricNodeSpec{FabricAddress: "100.99.0.2"}, Status: v1alpha1.FabricNodeStatus{UnderlayAddress: "192.0.2.2"}},
	},
	[]corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeExternalIP, Address: "198.51.100.1"}, {Type: corev1.NodeHostName, Address: "n1"},
	}}}},
)

func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
	if change != nil {
		change(s)
	}
	return s
}

func slice(port int32, addresses ...string) discoveryv1.EndpointSlice {
	name := "http"
	s := discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

// Services that are not exported, and what the conditions say of them.
func TestAssessRefuses(t *testing.T) {
	for _, test := range []struct {
		service       *corev1.Service
		valid, reason string
	}{
		{nil, "NoService", ""},
		{service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), "InvalidServiceType", ""},
		{service(func(s *corev1.Service) { s.Labels = labels(nameOf(owner)) }), "InvalidServiceType", ""},
		{service(func(s *corev1.Service) { s.Spec.Ports = nil }), "InvalidPorts", ""},
		{service(func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, 101) }), "InvalidPorts", ""},
		{service(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), "Valid", "HeadlessNotSupported"},
		{service(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }), "Valid", "IPFamilyNotSupported"},
	} {
		e := Assess(&mcsv1beta1.ServiceExport{}, test.service, nil, own)
		require.Nil(t, e.Own)
		require.Nil(t, e.Told)
		require.Equal(t, test.valid, e.Valid.Reason)
		require.Equal(t, test.reason, e.Problem.Reason)
		require.Equal(t, test.valid == "Valid", e.Valid.Status == metav1.ConditionTrue)
	}
}

// Peers are told of endpoints that they can reach, those of pods; the rest is
// counted. The cluster itself goes by the real ones.
func TestAssess(t *testing.T) {
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(100, 5))}}
	yes, no, zone := true, false, "z1"
	states := slice(8080, "10.0.0.5", "10.0.0.4", "10.9.0.1", "198.51.100.1", "192.0.2.2", "8.8.8.8", "fe80::1", "10.0.0.5")
	states.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	states.Endpoints[1].Zone = &zone
	e := Assess(export, service(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }),
		[]discoveryv1.EndpointSlice{slice(9090, "10.0.0.7"), states, {AddressType: discoveryv1.AddressTypeIPv6, Endpoints: slice(1, "10.0.0.8").Endpoints}}, own)
	require.Equal(t, &channel.Service{
		Created: time.Unix(100, 0).UTC(), Type: channel.ClusterSetIP, Affinity: 3 * time.Hour,
		Ports: []channel.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		Backends: []channel.Backends{
			{Ports: []channel.BackendPort{{Name: "http", Protocol: "TCP", Port: 8080}}, Endpoints: []channel.Endpoint{
				{Address: netip.MustParseAddr("10.0.0.4"), Ready: true, Serving: true, Zone: "z1"},
				{Address: netip.MustParseAddr("10.0.0.5"), Serving: true, Terminating: true},
			}},
			{Ports: []channel.BackendPort{{Name: "http", Protocol: "TCP", Port: 9090}}, Endpoints: []channel.Endpoint{
				{Address: netip.MustParseAddr("10.0.0.7"), Ready: true, Serving: true},
			}},
		},
	}, e.Told)
	require.Equal(t, 3, e.OnNodes, "10.9.0.1 (which the pod network holds as well), 198.51.100.1 and 192.0.2.2")
	require.Equal(t, 2, e.LeftOut, "8.8.8.8, and what is no IPv4")
	require.Len(t, e.Own.Backends[0].Endpoints, 6)
}

// What is beyond the bounds is counted, not told.
func TestAssessIsBounded(t *testing.T) {
	var addresses []string
	for i := range channel.MaxServiceEndpoints + 10 {
		addresses = append(addresses, fmt.Sprintf("10.1.%d.%d", i/250, i%250))
	}
	e := Assess(&mcsv1beta1.ServiceExport{}, service(nil), []discoveryv1.EndpointSlice{slice(80, addresses...)}, own)
	require.Equal(t, channel.MaxServiceEndpoints, e.Told.Endpoints())
	require.Equal(t, 10, e.TooMany)
	crowd, no := slice(80, addresses...), false
	for i := range 15 {
		crowd.Endpoints[i].Conditions.Ready = &no
	}
	e = Assess(&mcsv1beta1.ServiceExport{}, service(nil), []discoveryv1.EndpointSlice{crowd}, own)
	require.Equal(t, channel.MaxServiceEndpoints, e.Told.Endpoints())
	ready := 0
	for _, endpoint := range e.Told.Backends[0].Endpoints {
		if endpoint.Ready {
			ready++
		}
	}
	require.Equal(t, channel.MaxServiceEndpoints-5, ready, "none that is ready is left out")
	var many []discoveryv1.EndpointSlice
	for i := range channel.MaxBackendGroups + 3 {
		many = append(many, slice(int32(1000+i), "10.1.0.1"))
	}
	e = Assess(&mcsv1beta1.ServiceExport{}, service(nil), many, own)
	require.Len(t, e.Told.Backends, channel.MaxBackendGroups)
	require.Equal(t, 3, e.TooMany)
}

// A view keeps the host bits, whatever its length, and can be reversed.
func TestViews(t *testing.T) {
	views := ViewsOf(&v1alpha1.Neighbor{Spec: v1alpha1.NeighborSpec{Networks: []v1alpha1.ViewNetwork{
		{Original: "10.244.0.0/16", Local: "100.70.0.0/16"},
		{Original: "172.16.64.0/20", Local: "100.65.16.0/20"},
		{Original: "192.0.2.0/24", Local: "100.80.0.0/16"}, // of unequal length: none
	}}})
	for original, local := range map[string]string{
		"10.244.3.9": "100.70.3.9", "172.16.79.255": "100.65.31.255", "172.16.64.0": "100.65.16.0",
	} {
		got, ok := views.Local(netip.MustParseAddr(original))
		require.True(t, ok)
		require.Equal(t, local, got.String())
		back, ok := views.Original(got)
		require.True(t, ok)
		require.Equal(t, original, back.String())
	}
	for _, address := range []string{"192.0.2.1", "172.16.80.0", "100.70.0.1"} {
		_, ok := views.Local(netip.MustParseAddr(address))
		require.False(t, ok, address)
	}
	require.Nil(t, ViewsOf(nil))
}
