package watch

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/dns/zone"
)

// serviceOf returns what the zone says of a ServiceImport of type ClusterSetIP.
// Its IPs and ports are those of the derived Service. One without IP yet has its
// name all the same: a name stands as long as the import does.
func serviceOf(imported *mcs.ServiceImport) zone.Service {
	service := zone.Service{Key: zone.Key{Namespace: imported.Namespace, Name: imported.Name}}
	for _, text := range imported.Spec.IPs {
		if address, err := netip.ParseAddr(text); err == nil {
			service.Addresses = append(service.Addresses, address)
		}
	}
	for _, port := range imported.Spec.Ports {
		if port.Port < 1 || port.Port > 65535 {
			continue
		}
		protocol := port.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP // the API's default
		}
		service.Ports = append(service.Ports, zone.Port{Name: port.Name, Protocol: string(protocol), Number: uint16(port.Port)})
	}
	return service
}
