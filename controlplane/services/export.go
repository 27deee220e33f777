package services

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/controlplane/channel"
)

// Reasons of a ServiceExport's conditions beside the standard ones.
const (
	ReasonInvalidPorts         = "InvalidPorts"
	ReasonHeadlessNotSupported = "HeadlessNotSupported"
	ReasonFamilyNotSupported   = "IPFamilyNotSupported"
	ReasonHostNetwork          = "HostNetworkNotSupported"
)

// defaultAffinity is what Kubernetes takes where nothing is said.
const defaultAffinity = 10800 * time.Second

// Exported is what a ServiceExport comes to.
type Exported struct {
	// Own has the endpoints by their addresses in this cluster, Told by those that
	// peers can name. Both are nil if nothing is exported.
	Own, Told *channel.Service
	// LeftOut is how many endpoints peers are not told of, because no exported
	// network holds them; OnNodes how many, because they are on the host network;
	// TooMany how many, because there are too many.
	LeftOut, OnNodes, TooMany int
	// Valid, and Problem: why nothing is exported although it is valid, with an
	// empty type if all is well.
	Valid, Problem metav1.Condition
}

// Assess makes of a ServiceExport, its Service (nil if there is none) and that
// one's EndpointSlices what is exported. It is pure.
func Assess(export *mcsv1beta1.ServiceExport, service *corev1.Service, endpoints []discoveryv1.EndpointSlice, addresses Addresses) Exported {
	if reason, message := invalid(service); reason != "" {
		return Exported{Valid: condition(mcsv1beta1.ServiceExportConditionValid, metav1.ConditionFalse, reason, message)}
	}
	out := Exported{Valid: condition(mcsv1beta1.ServiceExportConditionValid, metav1.ConditionTrue, string(mcsv1beta1.ServiceExportReasonValid),
		"the Service can be exported")}
	if reason, message := unsupported(service); reason != "" {
		out.Problem = condition(mcsv1beta1.ServiceExportConditionReady, metav1.ConditionFalse, reason, message)
		return out
	}
	own := channel.Service{
		Created: export.CreationTimestamp.UTC().Truncate(time.Second), Type: channel.ClusterSetIP,
		Ports: servicePorts(service), Affinity: affinity(service),
	}
	told := own
	own.Backends, _ = limit(backendsOf(endpoints, func(a netip.Addr) (netip.Addr, bool) { return a, true }, nil))
	told.Backends, out.TooMany = limit(backendsOf(endpoints, func(a netip.Addr) (netip.Addr, bool) {
		if addresses.OnNode(a) {
			out.OnNodes++
		}
		return addresses.Told(a)
	}, &out.LeftOut))
	out.LeftOut -= out.OnNodes
	out.Own, out.Told = &own, &told
	return out
}

func condition(kind mcsv1beta1.ServiceExportConditionType, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: reason, Message: message}
}

// invalid says why a Service can never be exported.
func invalid(s *corev1.Service) (reason, message string) {
	switch {
	case s == nil:
		return string(mcsv1beta1.ServiceExportReasonNoService), "there is no Service of this name in the namespace"
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return string(mcsv1beta1.ServiceExportReasonInvalidServiceType), "a Service of type ExternalName has no endpoints to export: export the Service that it names"
	case ours(s):
		return string(mcsv1beta1.ServiceExportReasonInvalidServiceType), "the Service is derived from imports: export the one in its own cluster"
	case len(s.Spec.Ports) > channel.MaxServicePorts:
		return ReasonInvalidPorts, fmt.Sprintf("the Service has %d ports; at most %d can be exported", len(s.Spec.Ports), channel.MaxServicePorts)
	case len(s.Spec.Ports) == 0:
		return ReasonInvalidPorts, "the Service has no port"
	}
	return "", ""
}

// unsupported says what of a valid Service this release does not export.
func unsupported(s *corev1.Service) (reason, message string) {
	switch {
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return ReasonHeadlessNotSupported, "the Service is headless, which this release does not export: export one with a cluster IP"
	case len(s.Spec.IPFamilies) > 0 && !slices.Contains(s.Spec.IPFamilies, corev1.IPv4Protocol):
		return ReasonFamilyNotSupported, "the Service has no IPv4, the only family of this release"
	}
	return "", ""
}

func servicePorts(s *corev1.Service) []channel.ServicePort {
	var out []channel.ServicePort
	for _, p := range s.Spec.Ports {
		port := channel.ServicePort{Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Port: p.Port}
		if p.AppProtocol != nil {
			port.AppProtocol = *p.AppProtocol
		}
		out = append(out, port)
	}
	return out
}

func affinity(s *corev1.Service) time.Duration {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
	}
	return defaultAffinity
}

// backendsOf groups the endpoints by their ports, in an order that depends on
// nothing but them. Those that name has no name for are counted.
func backendsOf(from []discoveryv1.EndpointSlice, name func(netip.Addr) (netip.Addr, bool), leftOut *int) []channel.Backends {
	groups := map[string]*channel.Backends{}
	seen := map[string]map[netip.Addr]bool{}
	for i := range from {
		slice := &from[i]
		if slice.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		ports := backendPorts(slice.Ports)
		key := fmt.Sprint(ports)
		if groups[key] == nil {
			groups[key], seen[key] = &channel.Backends{Ports: ports}, map[netip.Addr]bool{}
		}
		for _, e := range slice.Endpoints {
			endpoint, ok := endpointOf(e, name)
			switch {
			case !ok && leftOut != nil:
				*leftOut++
			case ok && !seen[key][endpoint.Address]:
				seen[key][endpoint.Address] = true
				groups[key].Endpoints = append(groups[key].Endpoints, endpoint)
			}
		}
	}
	var out []channel.Backends
	for _, group := range groups {
		if len(group.Ports) == 0 || len(group.Endpoints) == 0 {
			continue
		}
		slices.SortFunc(group.Endpoints, func(a, b channel.Endpoint) int { return a.Address.Compare(b.Address) })
		out = append(out, *group)
	}
	slices.SortFunc(out, func(a, b channel.Backends) int { return strings.Compare(fmt.Sprint(a.Ports), fmt.Sprint(b.Ports)) })
	return out
}

func backendPorts(ports []discoveryv1.EndpointPort) []channel.BackendPort {
	var out []channel.BackendPort
	for _, p := range ports {
		if p.Port == nil || len(out) == channel.MaxServicePorts {
			continue
		}
		port := channel.BackendPort{Protocol: corev1.ProtocolTCP, Port: *p.Port}
		if p.Name != nil {
			port.Name = *p.Name
		}
		if p.Protocol != nil {
			port.Protocol = *p.Protocol
		}
		out = append(out, port)
	}
	slices.SortFunc(out, func(a, b channel.BackendPort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	return out
}

// endpointOf reads an endpoint of a slice. What a condition leaves open means
// what the API says it does.
func endpointOf(e discoveryv1.Endpoint, name func(netip.Addr) (netip.Addr, bool)) (channel.Endpoint, bool) {
	if len(e.Addresses) == 0 {
		return channel.Endpoint{}, false
	}
	address, err := netip.ParseAddr(e.Addresses[0])
	if err != nil || !address.Is4() {
		return channel.Endpoint{}, false
	}
	named, ok := name(address)
	if !ok {
		return channel.Endpoint{}, false
	}
	out := channel.Endpoint{Address: named, Ready: e.Conditions.Ready == nil || *e.Conditions.Ready}
	out.Serving = out.Ready
	if e.Conditions.Serving != nil {
		out.Serving = *e.Conditions.Serving
	}
	out.Terminating = e.Conditions.Terminating != nil && *e.Conditions.Terminating
	if e.Zone != nil {
		out.Zone = *e.Zone
	}
	if e.Hostname != nil {
		out.Hostname = *e.Hostname
	}
	return out, true
}

// limit keeps what one service may have, and counts what it may not.
func limit(groups []channel.Backends) ([]channel.Backends, int) {
	room, tooMany := channel.MaxServiceEndpoints, 0
	var out []channel.Backends
	for _, group := range groups {
		most := min(room, len(group.Endpoints))
		if len(out) == channel.MaxBackendGroups {
			most = 0
		}
		tooMany += len(group.Endpoints) - most
		if room -= most; most > 0 {
			out = append(out, channel.Backends{Ports: group.Ports, Endpoints: best(group.Endpoints, most)})
		}
	}
	return out, tooMany
}

// best returns n of the endpoints, in their order: those that are ready before
// others.
func best(endpoints []channel.Endpoint, n int) []channel.Endpoint {
	if n == len(endpoints) {
		return endpoints
	}
	room := n
	for _, e := range endpoints {
		if e.Ready {
			room--
		}
	}
	room = max(room, 0) // for those that are not
	var out []channel.Endpoint
	for _, e := range endpoints {
		switch {
		case len(out) == n:
			return out
		case e.Ready:
			out = append(out, e)
		case room > 0:
			room--
			out = append(out, e)
		}
	}
	return out
}
