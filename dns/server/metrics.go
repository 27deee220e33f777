package server

import (
	"fmt"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weft-fabric/weft/dns/zone"
)

// dropReason says why a request got no answer.
type dropReason string

const (
	// malformed: it could not be read, or was a response itself.
	malformed dropReason = "malformed"
	// overload: too many replies were under way.
	overload dropReason = "overload"
	// unsent: the reply could not be written.
	unsent dropReason = "unsent"
)

type metrics struct {
	answers, drops *prometheus.CounterVec
	truncations    prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_dns_answers_total", Help: "Answers sent, by transport and response code.",
		}, []string{"transport", "rcode"}),
		drops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weft_dns_drops_total", Help: "Requests that got no ordinary answer, by transport and reason (malformed, overload, unsent).",
		}, []string{"transport", "reason"}),
		truncations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weft_dns_truncations_total", Help: "Answers over UDP that were cut, so that the client asks again over TCP.",
		}),
	}
	for _, collector := range []prometheus.Collector{m.answers, m.drops, m.truncations} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics of the DNS server: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) answered(transport zone.Transport, rcode int, truncated bool) {
	m.answers.WithLabelValues(string(transport), dns.RcodeToString[rcode]).Inc()
	if truncated {
		m.truncations.Inc()
	}
}

func (m *metrics) dropped(transport zone.Transport, reason dropReason) {
	m.drops.WithLabelValues(string(transport), string(reason)).Inc()
}
