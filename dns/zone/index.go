package zone

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
)

// Key of a service.
type Key struct{ Namespace, Name string }

// Service is a multi-cluster service as this cluster's clients see it.
type Service struct {
	Key
	// Addresses are its ClusterSetIPs, of either family. A service without one has
	// its name nevertheless.
	Addresses []netip.Addr
	Ports     []Port
}

// Port of a service. One without a name has no SRV record.
type Port struct {
	Name string
	// Protocol is TCP, UDP or SCTP, in either case.
	Protocol string
	Number   uint16
}

// Index holds the services of the zone. It never changes; Change makes another.
type Index struct {
	serial   uint32
	services map[Key]entry
	// namespaces counts the services of each: a name above others exists (RFC 8020).
	namespaces map[string]int
}

// entry is a service with its records, by name relative to the service.
type entry struct {
	service Service
	names   map[string]records
}

// Empty returns an index without services. Its serial is the zone's.
func Empty(serial uint32) *Index {
	return &Index{serial: serial, services: map[Key]entry{}, namespaces: map[string]int{}}
}

// Change returns the index with services added or replaced, and others gone.
// If that leaves everything as it is, it returns the same index. Records are
// made for the changed services alone.
func (i *Index) Change(set []Service, gone []Key) *Index {
	next := &Index{serial: i.serial + 1, services: maps.Clone(i.services), namespaces: maps.Clone(i.namespaces)}
	changed := false
	for _, key := range gone {
		changed = next.remove(key) || changed
	}
	for _, service := range set {
		changed = next.put(service) || changed
	}
	if !changed {
		return i
	}
	return next
}

// Len returns the number of services.
func (i *Index) Len() int { return len(i.services) }

func (i *Index) remove(key Key) bool {
	if _, ok := i.services[key]; !ok {
		return false
	}
	delete(i.services, key)
	if i.namespaces[key.Namespace]--; i.namespaces[key.Namespace] == 0 {
		delete(i.namespaces, key.Namespace)
	}
	return true
}

func (i *Index) put(service Service) bool {
	service = normal(service)
	before, existed := i.services[service.Key]
	switch {
	case !isLabel(service.Name) || !isLabel(service.Namespace):
		return false // no name of this zone can be its
	case existed && reflect.DeepEqual(before.service, service):
		return false
	case !existed:
		i.namespaces[service.Namespace]++
	}
	i.services[service.Key] = entry{service: service, names: namesOf(service)}
	return true
}

// normal returns the service in the one form in which equal ones are equal,
// without what cannot be in a record. It shares nothing with its argument.
func normal(s Service) Service {
	var addresses []netip.Addr
	for _, address := range s.Addresses {
		if address = address.Unmap(); address.IsValid() && address.Zone() == "" {
			addresses = append(addresses, address)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	var ports []Port
	for _, port := range s.Ports {
		port.Name, port.Protocol = strings.ToLower(port.Name), strings.ToLower(port.Protocol)
		if port.Number != 0 && isLabel("_"+port.Name) && isLabel("_"+port.Protocol) {
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
	})
	return Service{Key: s.Key, Addresses: slices.Compact(addresses), Ports: slices.Compact(ports)}
}

// isLabel says whether the text can stand in a domain name as it is: what
// Kubernetes calls a DNS label, or one with an underscore in front (RFC 2782).
func isLabel(text string) bool {
	name := strings.TrimPrefix(text, "_")
	if name == "" || len(text) > 63 {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
