// Package resolver asks the cluster's own DNS, as any pod does, whether it
// forwards the zone.
package resolver

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/weft-fabric/weft/dns/zone"
)

// Path under which weft-dns reports over HTTP, on its health port, what its own
// pod's DNS answers. weftctl asks for it.
const Path = "/cluster-dns"

const (
	// tries at each server: behind its address there are several, one of which is
	// chosen for each socket.
	tries = 8
	// perTry bounds one of them.
	perTry = 2 * time.Second
	// maxServers that are asked; libc's resolver takes no more either.
	maxServers = 3
)

// Report says what the cluster's DNS answers for the zone's version.
type Report struct {
	// Servers are the addresses that were asked.
	Servers []string `json:"servers"`
	// Asked and Right count questions and right answers.
	Asked int `json:"asked"`
	Right int `json:"right"`
	// Problem is the first wrong answer, one clause; empty if there was none.
	Problem string `json:"problem,omitempty"`
}

// OK says that every answer was right.
func (r Report) OK() bool { return r.Asked > 0 && r.Right == r.Asked }

// Servers reads the DNS servers, host and port, from a resolv.conf.
func Servers(path string) ([]string, error) {
	config, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the DNS servers from %s: %w", path, err)
	}
	var servers []string
	for _, server := range config.Servers {
		servers = append(servers, net.JoinHostPort(server, config.Port))
	}
	return servers[:min(len(servers), maxServers)], nil
}

// Ask every server for the version of the zone's schema, several times. A server
// that does not answer at all is not asked again.
func Ask(ctx context.Context, servers []string) Report {
	report := Report{Servers: servers}
	for _, server := range servers {
		for range tries {
			problem, silent := askOnce(ctx, server)
			report.Asked++
			if problem == "" {
				report.Right++
			} else if report.Problem == "" {
				report.Problem = problem
			}
			if silent {
				break
			}
		}
	}
	if len(servers) == 0 {
		report.Problem = "the pod's resolv.conf names no DNS server"
	}
	return report
}

// askOnce returns what is wrong with one answer, one clause, and whether there
// was none.
func askOnce(ctx context.Context, server string) (problem string, silent bool) {
	ctx, cancel := context.WithTimeout(ctx, perTry)
	defer cancel()
	client := dns.Client{Timeout: perTry}
	reply, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(zone.VersionName, dns.TypeTXT), server)
	switch {
	case err != nil:
		return fmt.Sprintf("%s gives no answer (%v)", server, err), true
	case reply.Rcode != dns.RcodeSuccess:
		return fmt.Sprintf("%s answers %s for %s", server, dns.RcodeToString[reply.Rcode], zone.VersionName), false
	}
	for _, rr := range reply.Answer {
		if text, ok := rr.(*dns.TXT); ok && len(text.Txt) == 1 && text.Txt[0] == zone.Version {
			return "", false
		}
	}
	return fmt.Sprintf("%s answers %s without the version %s", server, zone.VersionName, zone.Version), false
}
