// Package lookup resolves a name as programs in a pod do: by the servers, the
// search list and the options of its own /etc/resolv.conf.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Path of the configuration.
const Path = "/etc/resolv.conf"

// Request is a question.
type Request struct {
	// Name is completed by the search list as resolv.conf(5) says.
	Name string `json:"name"`
	// Type of the records: A (if empty) or SRV.
	Type string `json:"type,omitempty"`
}

// Result is what came of it. That there is no such name is a result as well.
type Result struct {
	// Name that the answer is about: of those that were tried, the first with
	// records, else the first that no server could tell about, else the last.
	Name string `json:"name"`
	// Server that answered, host and port.
	Server string `json:"server"`
	// Code of the answer: NOERROR, NXDOMAIN, ...
	Code string `json:"code"`
	// Records in order: addresses, or "priority weight port target".
	Records []string `json:"records,omitempty"`
	// Milliseconds that it all took.
	Milliseconds float64 `json:"milliseconds"`
}

// Run asks.
func Run(ctx context.Context, req Request) (Result, error) {
	config, err := dns.ClientConfigFromFile(Path)
	if err != nil {
		return Result{}, fmt.Errorf("read %s: %w", Path, err)
	}
	return run(ctx, config, req)
}

func run(ctx context.Context, config *dns.ClientConfig, req Request) (Result, error) {
	kind := dns.TypeA
	switch req.Type {
	case "", "A":
	case "SRV":
		kind = dns.TypeSRV
	default:
		return Result{}, fmt.Errorf("records of type %q are not asked for here: say A or SRV", req.Type)
	}
	if _, ok := dns.IsDomainName(req.Name); !ok || req.Name == "" {
		return Result{}, fmt.Errorf("%q is no domain name", req.Name)
	}
	start := time.Now()
	var result Result
	for _, name := range config.NameList(req.Name) {
		reply, server, err := ask(ctx, config, name, kind)
		if err != nil {
			return Result{}, fmt.Errorf("resolve %s: %w", name, err)
		}
		one := Result{Name: name, Server: server, Code: dns.RcodeToString[reply.Rcode], Records: records(reply, kind)}
		// That the search list does not have it says nothing about a name that is not
		// known to be missing.
		if len(one.Records) > 0 || !result.failed() {
			result = one
		}
		if len(result.Records) > 0 {
			break
		}
	}
	result.Milliseconds = float64(time.Since(start).Microseconds()) / 1000
	return result, nil
}

// failed says whether it is not known if the name exists.
func (r Result) failed() bool {
	return r.Code != "" && r.Code != dns.RcodeToString[dns.RcodeSuccess] && r.Code != dns.RcodeToString[dns.RcodeNameError]
}

// ask tries the servers in turn, as often as the configuration says; a truncated
// answer is asked for again over TCP.
func ask(ctx context.Context, config *dns.ClientConfig, name string, kind uint16) (*dns.Msg, string, error) {
	errs := []error{errors.New("no server answered")}
	for range max(1, config.Attempts) {
		for _, host := range config.Servers {
			server := net.JoinHostPort(host, config.Port)
			for _, network := range []string{"udp4", "tcp4"} {
				client := dns.Client{Net: network, Timeout: time.Duration(config.Timeout) * time.Second}
				reply, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion(dns.Fqdn(name), kind), server)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", server, err))
					break
				}
				if !reply.Truncated {
					return reply, server, nil
				}
			}
		}
	}
	return nil, "", errors.Join(errs...)
}

// records returns those of a type, in an order that does not depend on the
// server's.
func records(reply *dns.Msg, kind uint16) []string {
	var found []string
	for _, rr := range reply.Answer {
		if rr.Header().Rrtype == kind {
			found = append(found, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
	}
	slices.Sort(found)
	return found
}
