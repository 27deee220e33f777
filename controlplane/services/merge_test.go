package services

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

func identityOf(name string) v1alpha1.Identity {
	return v1alpha1.Identity(strings.Repeat(name[:1], 52))
}

// export of a cluster, made at a second, with ports such as "http:80" or
// "dns:53/UDP".
func exportOf(cluster string, second int64, ports ...string) Export {
	s := &channel.Service{Created: time.Unix(second, 0).UTC(), Type: channel.ClusterSetIP}
	for _, text := range ports {
		p := channel.ServicePort{Protocol: corev1.ProtocolTCP}
		name, number, _ := strings.Cut(text, ":")
		number, protocol, ok := strings.Cut(number, "/")
		if ok {
			p.Protocol = corev1.Protocol(protocol)
		}
		p.Name = name
		_, _ = fmt.Sscan(number, &p.Port)
		s.Ports = append(s.Ports, p)
	}
	return Export{Cluster: Cluster{Identity: identityOf(cluster), ID: v1alpha1.ClusterID(cluster), Name: cluster}, Service: s}
}

func (e Export) headless() Export {
	e.Service.Type = channel.Headless
	return e
}

func (e Export) sticky(d time.Duration) Export {
	e.Service.Affinity = d
	return e
}

// The rules of KEP-1645, one by one.
func TestMerge(t *testing.T) {
	for name, test := range map[string]struct {
		exports  []Export
		ports    string
		clusters string
		kind     channel.ServiceType
		affinity time.Duration
		reason   string
		message  string
	}{
		"one export is the service": {
			exports: []Export{exportOf("a", 1, "http:80").sticky(time.Hour)},
			ports:   "http:80/TCP", clusters: "a", affinity: time.Hour,
		},
		"equal exports agree": {
			exports: []Export{exportOf("b", 1, "http:80"), exportOf("a", 2, "http:80")},
			ports:   "http:80/TCP", clusters: "b a",
		},
		"ports are united, in the order of age": {
			exports: []Export{exportOf("b", 2, "http:80", "metrics:9090"), exportOf("a", 1, "http:80", "dns:53/UDP")},
			ports:   "http:80/TCP dns:53/UDP metrics:9090/TCP", clusters: "a b",
			reason: "PortConflict", message: "a does not have all ports, and gets no traffic at the others; b does not have all ports",
		},
		"the oldest wins a port's number": {
			exports: []Export{exportOf("a", 2, "http:8080"), exportOf("b", 1, "http:80")},
			ports:   "http:80/TCP", clusters: "b a",
			reason: "PortConflict", message: "port http (8080/TCP) of a gives way to http (80/TCP) of b",
		},
		"of one second, the least cluster ID wins": {
			exports: []Export{exportOf("b", 1, "http:80"), exportOf("a", 1, "http:8080")},
			ports:   "http:8080/TCP", clusters: "a b",
			reason: "PortConflict", message: "port http (80/TCP) of b gives way to http (8080/TCP) of a",
		},
		"the oldest wins a port's name": {
			exports: []Export{exportOf("a", 1, "http:80"), exportOf("b", 2, "web:80")},
			ports:   "http:80/TCP", clusters: "a b",
			reason: "PortConflict", message: "port web (80/TCP) of b gives way to http (80/TCP) of a",
		},
		"one number in two protocols is no conflict": {
			exports: []Export{exportOf("a", 1, "dns:53/UDP", "dns-tcp:53/TCP"), exportOf("b", 2, "dns:53/UDP", "dns-tcp:53/TCP")},
			ports:   "dns:53/UDP dns-tcp:53/TCP", clusters: "a b",
		},
		"a port without name stands alone": {
			exports: []Export{exportOf("a", 1, ":80"), exportOf("b", 2, "metrics:9090")},
			ports:   ":80/TCP", clusters: "a b",
			reason: "PortConflict", message: "port metrics (9090/TCP) of b gives way to 80/TCP of a",
		},
		"the oldest decides the type": {
			exports: []Export{exportOf("a", 2, "http:80"), exportOf("b", 1, "http:80").headless()},
			ports:   "http:80/TCP", clusters: "b a", kind: channel.Headless,
			reason: "TypeConflict", message: "type ClusterSetIP of a gives way to Headless of b",
		},
		"the oldest decides the affinity": {
			exports: []Export{exportOf("a", 1, "http:80"), exportOf("b", 2, "http:80").sticky(time.Hour)},
			ports:   "http:80/TCP", clusters: "a b",
			reason: "SessionAffinityConflict", message: "session affinity ClientIP of b gives way to None of a",
		},
		"and for how long": {
			exports: []Export{exportOf("a", 1, "http:80").sticky(time.Hour), exportOf("b", 2, "http:80").sticky(time.Minute)},
			ports:   "http:80/TCP", clusters: "a b", affinity: time.Hour,
			reason: "SessionAffinityConfigConflict", message: "a session affinity of 1m0s of b gives way to 1h0m0s of a",
		},
		"several conflicts are all said": {
			exports: []Export{exportOf("a", 1, "http:80").sticky(time.Hour), exportOf("b", 2, "http:81").headless()},
			ports:   "http:80/TCP", clusters: "a b", affinity: time.Hour,
			reason: "PortConflict,SessionAffinityConflict,TypeConflict", message: "port http (81/TCP) of b gives way to http (80/TCP) of a; type Headless",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := Merge(test.exports)
			if test.kind == "" {
				test.kind = channel.ClusterSetIP
			}
			var ports, clusters []string
			for _, p := range m.Ports {
				ports = append(ports, fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol))
			}
			for _, e := range m.Exports {
				clusters = append(clusters, e.Cluster.Name)
			}
			require.Equal(t, test.ports, strings.Join(ports, " "))
			require.Equal(t, test.clusters, strings.Join(clusters, " "))
			require.Equal(t, test.kind, m.Type)
			require.Equal(t, test.affinity, m.Affinity)
			c := m.conflictCondition()
			require.Equal(t, "Conflict", c.Type)
			if test.reason == "" {
				require.Equal(t, metav1.ConditionFalse, c.Status)
				require.Equal(t, "NoConflicts", c.Reason)
				return
			}
			require.Equal(t, metav1.ConditionTrue, c.Status)
			require.Equal(t, test.reason, c.Reason)
			require.Contains(t, c.Message, test.message)
		})
	}
	require.Empty(t, Merge(nil).Exports)
}

// Whatever the order in which exports arrive, the service is the same, and one
// that Kubernetes takes.
func TestMergeHasNoOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"", "http", "dns", "metrics"}
	for range 2000 {
		var exports []Export
		for i := range 1 + random.IntN(5) {
			e := exportOf(string(rune('a'+i)), int64(1+random.IntN(3)))
			e.Cluster.ID = v1alpha1.ClusterID([]string{"x", "y"}[random.IntN(2)]) // IDs may be equal, identities not
			seen := map[string]bool{}
			for range 1 + random.IntN(3) {
				p := channel.ServicePort{Name: names[random.IntN(len(names))], Protocol: corev1.ProtocolTCP, Port: int32(80 + random.IntN(3))}
				if seen[p.Name] || len(e.Service.Ports) > 0 && (p.Name == "" || e.Service.Ports[0].Name == "") {
					continue
				}
				seen[p.Name] = true
				e.Service.Ports = append(e.Service.Ports, p)
			}
			if random.IntN(3) == 0 {
				e.Service.Affinity = time.Duration(1+random.IntN(2)) * time.Minute
			}
			if random.IntN(4) == 0 {
				e.Service.Type = channel.Headless
			}
			exports = append(exports, e)
		}
		want := Merge(exports)
		for range 4 {
			random.Shuffle(len(exports), func(i, j int) { exports[i], exports[j] = exports[j], exports[i] })
			require.Equal(t, want, Merge(exports))
		}
		byName, byNumber := map[string]bool{}, map[int32]bool{}
		for _, p := range want.Ports {
			require.False(t, byName[p.Name] || byNumber[p.Port], "%+v", want.Ports)
			require.True(t, p.Name != "" || len(want.Ports) == 1, "%+v", want.Ports)
			byName[p.Name], byNumber[p.Port] = true, true
		}
	}
}

// A cluster serves only the ports that it has, and at its own targets.
func TestBackendsOfAMerge(t *testing.T) {
	a, b := exportOf("a", 1, "http:80"), exportOf("b", 2, "http:8000", "dns:53/UDP", "web:80")
	endpoint := channel.Endpoint{Address: netip.MustParseAddr("10.0.0.1"), Ready: true}
	b.Service.Backends = []channel.Backends{
		{Ports: []channel.BackendPort{{Name: "http", Protocol: "TCP", Port: 8080}, {Name: "web", Protocol: "TCP", Port: 8081}}, Endpoints: []channel.Endpoint{endpoint}},
		{Ports: []channel.BackendPort{{Name: "web", Protocol: "TCP", Port: 9090}}, Endpoints: []channel.Endpoint{endpoint}},
	}
	m := Merge([]Export{a, b})
	require.Empty(t, m.Backends(a.Service))
	require.Equal(t, []channel.Backends{
		{Ports: []channel.BackendPort{{Name: "http", Protocol: "TCP", Port: 8080}}, Endpoints: []channel.Endpoint{endpoint}},
	}, m.Backends(b.Service), "web gave way to http of a, so nobody is sent there")
}
