package services

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/controlplane/channel"
)

// Export is a cluster's export of a service.
type Export struct {
	Cluster Cluster
	Service *channel.Service
}

// Import is what all exports of a service come to.
type Import struct {
	Type     channel.ServiceType
	Ports    []channel.ServicePort
	Affinity time.Duration
	// Exports from the oldest to the youngest.
	Exports   []Export
	Conflicts []Conflict
}

// Conflict is a property in which exports differ.
type Conflict struct {
	Reason  mcsv1beta1.ServiceExportConditionReason
	Message string
}

// Merge makes one service of the exports of a name by the rules of KEP-1645: in a
// conflict the oldest export wins, of exports of the same second that of the least
// cluster ID; ports are united as far as they do not conflict. The order in which
// exports are given means nothing.
func Merge(exports []Export) Import {
	out := Import{Exports: slices.Clone(exports)}
	if len(exports) == 0 {
		return out
	}
	slices.SortFunc(out.Exports, compareExports)
	oldest := out.Exports[0].Service
	out.Type, out.Affinity = oldest.Type, oldest.Affinity
	out.mergePorts()
	for _, e := range out.Exports[1:] {
		out.compare(e)
	}
	return out
}

func compareExports(a, b Export) int {
	return cmp.Or(
		a.Service.Created.Compare(b.Service.Created),
		cmp.Compare(a.Cluster.ID, b.Cluster.ID),
		cmp.Compare(a.Cluster.Identity, b.Cluster.Identity),
	)
}

// compare finds the conflicts of a younger export with what the oldest decided.
func (m *Import) compare(e Export) {
	oldest := m.Exports[0].Cluster.Name
	if e.Service.Type != m.Type {
		m.conflict(mcsv1beta1.ServiceExportReasonTypeConflict,
			"type %s of %s gives way to %s of %s", e.Service.Type, e.Cluster.Name, m.Type, oldest)
	}
	switch {
	case e.Service.Affinity == m.Affinity:
	case (e.Service.Affinity == 0) != (m.Affinity == 0):
		m.conflict(mcsv1beta1.ServiceExportReasonSessionAffinityConflict,
			"session affinity %s of %s gives way to %s of %s", affinityName(e.Service.Affinity), e.Cluster.Name, affinityName(m.Affinity), oldest)
	default:
		m.conflict(mcsv1beta1.ServiceExportReasonSessionAffinityConfigConflict,
			"a session affinity of %s of %s gives way to %s of %s", e.Service.Affinity, e.Cluster.Name, m.Affinity, oldest)
	}
}

func (m *Import) conflict(reason mcsv1beta1.ServiceExportConditionReason, format string, args ...any) {
	m.Conflicts = append(m.Conflicts, Conflict{reason, fmt.Sprintf(format, args...)})
}

// mergePorts unites the ports. What Kubernetes refuses in one Service (a name or a
// number twice, a port without name beside others) is a conflict.
func (m *Import) mergePorts() {
	from := map[string]string{} // port name: cluster
	for _, e := range m.Exports {
		for _, p := range e.Service.Ports {
			rival := slices.IndexFunc(m.Ports, func(q channel.ServicePort) bool { return exclude(p, q) })
			switch {
			case rival < 0 && len(m.Ports) < channel.MaxServicePorts:
				m.Ports = append(m.Ports, p)
				from[p.Name] = e.Cluster.Name
			case rival < 0:
				m.conflict(mcsv1beta1.ServiceExportReasonPortConflict, "port %s of %s is one too many: a service has at most %d",
					portName(p), e.Cluster.Name, channel.MaxServicePorts)
			case m.Ports[rival] != p:
				m.conflict(mcsv1beta1.ServiceExportReasonPortConflict, "port %s of %s gives way to %s of %s",
					portName(p), e.Cluster.Name, portName(m.Ports[rival]), from[m.Ports[rival].Name])
			}
		}
	}
	if slices.ContainsFunc(m.Conflicts, func(c Conflict) bool { return c.Reason == mcsv1beta1.ServiceExportReasonPortConflict }) {
		return
	}
	for _, e := range m.Exports {
		if len(e.Service.Ports) != len(m.Ports) {
			m.conflict(mcsv1beta1.ServiceExportReasonPortConflict, "%s does not have all ports, and gets no traffic at the others", e.Cluster.Name)
		}
	}
}

// exclude reports whether two ports are one, or cannot stand in one service.
func exclude(a, b channel.ServicePort) bool {
	return a.Name == b.Name || a.Name == "" || b.Name == "" || a.Protocol == b.Protocol && a.Port == b.Port
}

func portName(p channel.ServicePort) string {
	text := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
	if p.Name != "" {
		text = fmt.Sprintf("%s (%s)", p.Name, text)
	}
	if p.AppProtocol != "" {
		text += " for " + p.AppProtocol
	}
	return text
}

func affinityName(d time.Duration) string {
	if d == 0 {
		return "None"
	}
	return "ClientIP"
}

// Backends returns what of an export's backends serves the import: their ports
// that are the import's by name and protocol.
func (m *Import) Backends(s *channel.Service) []channel.Backends {
	var out []channel.Backends
	for _, group := range s.Backends {
		kept := channel.Backends{Endpoints: group.Endpoints}
		for _, p := range group.Ports {
			if slices.ContainsFunc(m.Ports, func(q channel.ServicePort) bool { return q.Name == p.Name && q.Protocol == p.Protocol }) {
				kept.Ports = append(kept.Ports, p)
			}
		}
		if len(kept.Ports) > 0 && len(kept.Endpoints) > 0 {
			out = append(out, kept)
		}
	}
	return out
}

// maxMessage in bytes of a condition.
const maxMessage = 4096

// conflictCondition says on a ServiceExport whether exports conflict.
func (m *Import) conflictCondition() metav1.Condition {
	if len(m.Conflicts) == 0 {
		return metav1.Condition{
			Type: string(mcsv1beta1.ServiceExportConditionConflict), Status: metav1.ConditionFalse,
			Reason: string(mcsv1beta1.ServiceExportReasonNoConflicts), Message: "the exports of all clusters agree",
		}
	}
	var reasons, messages []string
	for _, c := range m.Conflicts {
		if reason := string(c.Reason); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		messages = append(messages, c.Message)
	}
	slices.Sort(reasons)
	message := strings.Join(messages, "; ")
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return metav1.Condition{
		Type: string(mcsv1beta1.ServiceExportConditionConflict), Status: metav1.ConditionTrue,
		Reason: strings.Join(reasons, ","), Message: message,
	}
}
