package services

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/controlplane/channel"
)

// ReasonNotOurs: an object that somebody else made is in the way.
const ReasonNotOurs = "NotManagedByWeft"

// ours reports whether an object belongs to an import that Weft made.
func ours(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[LabelManagedBy] == ManagedBy && labels[mcsv1beta1.LabelServiceName] != ""
}

// derivedFrom reports whether a Service was made for the import of this name:
// another one's name may have been sought out to have the same hash.
func derivedFrom(s *corev1.Service, name types.NamespacedName) bool {
	return ours(s) && s.Labels[mcsv1beta1.LabelServiceName] == name.Name
}

// labels of what belongs to an import.
func labels(name types.NamespacedName) map[string]string {
	return map[string]string{LabelManagedBy: ManagedBy, mcsv1beta1.LabelServiceName: name.Name}
}

// ownedBy makes the garbage collector delete an object with its ServiceImport.
func ownedBy(i *mcsv1beta1.ServiceImport) []metav1.OwnerReference {
	controller := true
	return []metav1.OwnerReference{{
		APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName,
		Name: i.Name, UID: i.UID, Controller: &controller,
	}}
}

// ImportSpec is the spec of the ServiceImport; clusterIP is that of the derived
// Service, empty before there is one.
func (m *Import) ImportSpec(clusterIP string) mcsv1beta1.ServiceImportSpec {
	spec := mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ServiceImportType(m.Type), Ports: []mcsv1beta1.ServicePort{}}
	for _, p := range m.Ports {
		spec.Ports = append(spec.Ports, mcsv1beta1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, AppProtocol: optional(p.AppProtocol)})
	}
	if m.Type != channel.ClusterSetIP {
		return spec
	}
	spec.SessionAffinity, spec.SessionAffinityConfig = m.affinitySpec()
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	if clusterIP != "" {
		spec.IPs = []string{clusterIP}
	}
	return spec
}

func (m *Import) affinitySpec() (corev1.ServiceAffinity, *corev1.SessionAffinityConfig) {
	if m.Affinity == 0 {
		return corev1.ServiceAffinityNone, nil
	}
	seconds := int32(m.Affinity / time.Second)
	return corev1.ServiceAffinityClientIP, &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// derive sets what the derived Service has of the import, and leaves alone what
// the API server fills in. True: something changed.
func (m *Import) derive(s *corev1.Service, i *mcsv1beta1.ServiceImport) bool {
	before := s.DeepCopy()
	s.Labels = overlay(s.Labels, labels(nameOf(i)))
	s.OwnerReferences = ownedBy(i)
	if !m.samePorts(s.Spec.Ports) {
		s.Spec.Ports = nil
		for _, p := range m.Ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, AppProtocol: optional(p.AppProtocol)})
		}
	}
	s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = m.affinitySpec()
	if s.Spec.ClusterIP == "" {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.Type, s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = corev1.ServiceTypeClusterIP, &single, []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return !same(before, s)
}

func (m *Import) samePorts(ports []corev1.ServicePort) bool {
	return slices.EqualFunc(m.Ports, ports, func(p channel.ServicePort, q corev1.ServicePort) bool {
		app := ""
		if q.AppProtocol != nil {
			app = *q.AppProtocol
		}
		return p.Name == q.Name && p.Protocol == q.Protocol && p.Port == q.Port && p.AppProtocol == app
	})
}

func overlay(onto, values map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range onto {
		out[k] = v
	}
	for k, v := range values {
		out[k] = v
	}
	return out
}

// clusterStatuses lists the exporting clusters, by name.
func (m *Import) clusterStatuses() []mcsv1beta1.ClusterStatus {
	var out []mcsv1beta1.ClusterStatus
	for _, e := range m.Exports {
		out = append(out, mcsv1beta1.ClusterStatus{Cluster: e.Cluster.Name})
	}
	slices.SortFunc(out, func(a, b mcsv1beta1.ClusterStatus) int { return strings.Compare(a.Cluster, b.Cluster) })
	return out
}
