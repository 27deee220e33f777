package channel

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
)

const (
	// MaxServices and MaxEndpoints in all are what one peer may export here.
	MaxServices  = 1000
	MaxEndpoints = 10000
	// Of one service.
	MaxServicePorts     = 100
	MaxBackendGroups    = 32
	MaxServiceEndpoints = 1000
	// maxAffinity in seconds is what Kubernetes takes.
	maxAffinity = 86400
)

var (
	// label is a DNS label (RFC 1123).
	label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	// labelValue is what a zone may be: the value of a node's label.
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// ServiceType of an exported service.
type ServiceType string

const (
	ClusterSetIP ServiceType = "ClusterSetIP"
	Headless     ServiceType = "Headless"
)

// Service is what one end says of a service that it exports. Who has one does
// not change it any more. The JSON is for this cluster's own notes.
type Service struct {
	// Created is when the ServiceExport was made, in whole seconds.
	Created time.Time     `json:"created"`
	Type    ServiceType   `json:"type"`
	Ports   []ServicePort `json:"ports"`
	// Affinity is how long a client stays with a backend, in whole seconds; 0: it
	// does not.
	Affinity time.Duration `json:"affinityNanoseconds,omitempty"`
	Backends []Backends    `json:"backends,omitempty"`
}

// ServicePort is a port that the service is reached at.
type ServicePort struct {
	Name        string          `json:"name,omitempty"`
	Protocol    corev1.Protocol `json:"protocol"`
	Port        int32           `json:"port"`
	AppProtocol string          `json:"appProtocol,omitempty"`
}

// Backends are endpoints that listen at the same ports.
type Backends struct {
	Ports     []BackendPort `json:"ports"`
	Endpoints []Endpoint    `json:"endpoints"`
}

// BackendPort is where they listen for the service's port of that name.
type BackendPort struct {
	Name     string          `json:"name,omitempty"`
	Protocol corev1.Protocol `json:"protocol"`
	Port     int32           `json:"port"`
}

// Endpoint is named by its address in its own cluster.
type Endpoint struct {
	Address     netip.Addr `json:"address"`
	Ready       bool       `json:"ready,omitempty"`
	Serving     bool       `json:"serving,omitempty"`
	Terminating bool       `json:"terminating,omitempty"`
	Zone        string     `json:"zone,omitempty"`
	Hostname    string     `json:"hostname,omitempty"`
}

// Endpoints is how many endpoints a service has; nil has none.
func (s *Service) Endpoints() int {
	if s == nil {
		return 0
	}
	sum := 0
	for _, b := range s.Backends {
		sum += len(b.Endpoints)
	}
	return sum
}

var serviceTypes = map[ServiceType]channelv1.Service_Type{
	ClusterSetIP: channelv1.Service_TYPE_CLUSTER_SET_IP,
	Headless:     channelv1.Service_TYPE_HEADLESS,
}

var protocols = map[corev1.Protocol]channelv1.Protocol{
	corev1.ProtocolTCP:  channelv1.Protocol_PROTOCOL_TCP,
	corev1.ProtocolUDP:  channelv1.Protocol_PROTOCOL_UDP,
	corev1.ProtocolSCTP: channelv1.Protocol_PROTOCOL_SCTP,
}

func (s *Service) encode() *channelv1.Service {
	if s == nil {
		return nil
	}
	return &channelv1.Service{
		Created: uint64(max(s.Created.Unix(), 0)), Type: serviceTypes[s.Type], Ports: each(s.Ports, ServicePort.encode),
		ClientIpAffinity: uint32(s.Affinity / time.Second), Backends: each(s.Backends, Backends.encode),
	}
}

func (p ServicePort) encode() *channelv1.ServicePort {
	return &channelv1.ServicePort{Name: p.Name, Protocol: protocols[p.Protocol], Port: uint32(p.Port), AppProtocol: p.AppProtocol}
}

func (b Backends) encode() *channelv1.Backends {
	return &channelv1.Backends{Ports: each(b.Ports, BackendPort.encode), Endpoints: each(b.Endpoints, Endpoint.encode)}
}

func (p BackendPort) encode() *channelv1.BackendPort {
	return &channelv1.BackendPort{Name: p.Name, Protocol: protocols[p.Protocol], Port: uint32(p.Port)}
}

func (e Endpoint) encode() *channelv1.Endpoint {
	return &channelv1.Endpoint{
		Address: e.Address.String(), Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Zone: e.Zone, Hostname: e.Hostname,
	}
}

// decodeServiceName refuses what cannot be the name of a Service.
func decodeServiceName(namespace, name string) (types.NamespacedName, error) {
	if !label.MatchString(namespace) || !label.MatchString(name) {
		return types.NamespacedName{}, fmt.Errorf("%.70q in namespace %.70q is no name of a Service", name, namespace)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// decodeService validates a service of a peer; nil for nil. The error is one
// sentence that names the offending item.
func decodeService(in *channelv1.Service) (*Service, error) {
	if in == nil {
		return nil, nil
	}
	if in.GetCreated() == 0 || in.GetCreated() > maxSince {
		return nil, fmt.Errorf("%d is no time at which an export was made", in.GetCreated())
	}
	if in.GetClientIpAffinity() > maxAffinity {
		return nil, fmt.Errorf("a session affinity of %d seconds is beyond a day", in.GetClientIpAffinity())
	}
	out := &Service{
		Created:  time.Unix(int64(in.GetCreated()), 0).UTC(),
		Affinity: time.Duration(in.GetClientIpAffinity()) * time.Second,
	}
	for kind, wire := range serviceTypes {
		if wire == in.GetType() {
			out.Type = kind
		}
	}
	if out.Type == "" {
		return nil, fmt.Errorf("type %d is not known to this release", in.GetType())
	}
	var err error
	if out.Ports, err = decodeServicePorts(in.GetPorts()); err != nil {
		return nil, err
	}
	out.Backends, err = decodeBackends(in.GetBackends())
	return out, err
}

// portKey tells ports of a service apart. What Kubernetes refuses in a Service
// is refused here.
type portKey struct {
	protocol corev1.Protocol
	port     int32
}

func decodeServicePorts(in []*channelv1.ServicePort) ([]ServicePort, error) {
	if len(in) == 0 || len(in) > MaxServicePorts {
		return nil, fmt.Errorf("%d ports are not within 1 to %d", len(in), MaxServicePorts)
	}
	var out []ServicePort
	names, ports := map[string]bool{}, map[portKey]bool{}
	for _, p := range in {
		protocol, port, err := decodePort(p.GetName(), p.GetProtocol(), p.GetPort())
		if err != nil {
			return nil, err
		}
		key := portKey{protocol, port}
		switch app := p.GetAppProtocol(); {
		case p.GetName() == "" && len(in) > 1:
			return nil, fmt.Errorf("port %d has no name, and is not the only one", port)
		case names[p.GetName()]:
			return nil, fmt.Errorf("port name %q is listed twice", p.GetName())
		case ports[key]:
			return nil, fmt.Errorf("port %d of %s is listed twice", port, protocol)
		case app != "" && (len(app) > 320 || len(validation.IsQualifiedName(app)) > 0):
			return nil, fmt.Errorf("port %d: %.70q is no application protocol", port, app)
		}
		names[p.GetName()], ports[key] = true, true
		out = append(out, ServicePort{Name: p.GetName(), Protocol: protocol, Port: port, AppProtocol: p.GetAppProtocol()})
	}
	return out, nil
}

func decodePort(name string, protocol channelv1.Protocol, port uint32) (corev1.Protocol, int32, error) {
	if name != "" && !label.MatchString(name) {
		return "", 0, fmt.Errorf("%.70q is no name of a port", name)
	}
	if port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("port %d is not within 1 to 65535", port)
	}
	for p, wire := range protocols {
		if wire == protocol {
			return p, int32(port), nil
		}
	}
	return "", 0, fmt.Errorf("port %d: protocol %d is not known to this release", port, protocol)
}

func decodeBackends(in []*channelv1.Backends) ([]Backends, error) {
	if len(in) > MaxBackendGroups {
		return nil, fmt.Errorf("%d groups of backends; at most %d are allowed", len(in), MaxBackendGroups)
	}
	var out []Backends
	sum := 0
	for _, b := range in {
		if sum += len(b.GetEndpoints()); sum > MaxServiceEndpoints {
			return nil, fmt.Errorf("there are more than %d endpoints", MaxServiceEndpoints)
		}
		group, err := decodeGroup(b)
		if err != nil {
			return nil, err
		}
		out = append(out, group)
	}
	return out, nil
}

func decodeGroup(in *channelv1.Backends) (Backends, error) {
	var out Backends
	if len(in.GetPorts()) > MaxServicePorts {
		return out, fmt.Errorf("backends listen at %d ports; at most %d are allowed", len(in.GetPorts()), MaxServicePorts)
	}
	names, addresses := map[string]bool{}, map[netip.Addr]bool{}
	for _, p := range in.GetPorts() {
		protocol, port, err := decodePort(p.GetName(), p.GetProtocol(), p.GetPort())
		if err == nil && names[p.GetName()] {
			err = fmt.Errorf("port name %q of backends is listed twice", p.GetName())
		}
		if err != nil {
			return out, err
		}
		names[p.GetName()] = true
		out.Ports = append(out.Ports, BackendPort{Name: p.GetName(), Protocol: protocol, Port: port})
	}
	for _, e := range in.GetEndpoints() {
		endpoint, err := decodeEndpoint(e)
		if err == nil && addresses[endpoint.Address] {
			err = errors.New("it is listed twice")
		}
		if err != nil {
			return out, fmt.Errorf("endpoint %.45q: %w", e.GetAddress(), err)
		}
		addresses[endpoint.Address] = true
		out.Endpoints = append(out.Endpoints, endpoint)
	}
	return out, nil
}

func decodeEndpoint(in *channelv1.Endpoint) (Endpoint, error) {
	out := Endpoint{
		Ready: in.GetReady(), Serving: in.GetServing(), Terminating: in.GetTerminating(),
		Zone: in.GetZone(), Hostname: in.GetHostname(),
	}
	if len(in.GetAddress()) > 15 {
		return out, errors.New("it is no IPv4 address")
	}
	address, err := netip.ParseAddr(in.GetAddress())
	if err != nil || !address.Is4() {
		return out, errors.New("it is no IPv4 address")
	}
	out.Address = address
	if out.Hostname != "" && !label.MatchString(out.Hostname) {
		return out, fmt.Errorf("%.70q is no host name", out.Hostname)
	}
	if out.Zone != "" && !labelValue.MatchString(out.Zone) {
		return out, fmt.Errorf("%.70q is no name of a zone", out.Zone)
	}
	return out, nil
}
