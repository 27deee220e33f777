package measure

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weft-fabric/weft/tools/demo/testbed"
)

// Nslookup is what BusyBox's nslookup says of a name, of which it asks the A and
// the AAAA records.
type Nslookup struct {
	// Server that was asked, address and port.
	Server string
	// Addresses of the name, in order.
	Addresses []netip.Addr
	// Refusal is the code of an answer that was not NOERROR, such as NXDOMAIN; of
	// two, the first.
	Refusal string
}

// Resolved says whether the name has these addresses, and no question about it was
// refused.
func (n Nslookup) Resolved(want ...netip.Addr) bool {
	return n.Refusal == "" && slices.Equal(n.Addresses, want)
}

// Unknown says whether the name does not exist.
func (n Nslookup) Unknown() bool { return n.Refusal == "NXDOMAIN" && len(n.Addresses) == 0 }

func (n Nslookup) String() string {
	text := fmt.Sprintf("%v", n.Addresses)
	if n.Refusal != "" {
		text = n.Refusal
		if len(n.Addresses) > 0 {
			text += fmt.Sprintf(" and %v", n.Addresses)
		}
	}
	return text + " from " + n.Server
}

// AwaitNslookup runs `nslookup` with the service's name in a pod, by the API
// server, again and again until met, and returns the last result.
func AwaitNslookup(ctx context.Context, in testbed.Host, limit time.Duration, met func(Nslookup) bool) (Nslookup, error) {
	last, failure := Nslookup{}, error(nil)
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		result, err := nslookup(ctx, in, testbed.ServiceDomain)
		if ctx.Err() != nil {
			return false, nil // cut short: what it says is no result
		}
		last, failure = result, err
		return err == nil && met(last), nil
	})
	switch {
	case err == nil:
		return last, nil
	case failure != nil:
		return last, fmt.Errorf("wait %s for %s to resolve as it should in %s: %w", limit, testbed.ServiceDomain, in, failure)
	}
	return last, fmt.Errorf("wait %s for %s to resolve as it should in %s: the last answer was %s", limit, testbed.ServiceDomain, in, last)
}

func nslookup(ctx context.Context, in testbed.Host, name string) (Nslookup, error) {
	out, failure := in.Exec(ctx, "nslookup", name)
	// A refusal is a result, though the program fails with it.
	result, err := parseNslookup(string(out))
	if err != nil && failure != nil {
		return result, failure
	}
	return result, err
}

// parseNslookup reads what it printed: a paragraph about the server, and one for
// each question, which is empty where there are no such records.
func parseNslookup(out string) (Nslookup, error) {
	var result Nslookup
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, ";;") || strings.HasPrefix(line, "***") {
			return result, fmt.Errorf("nslookup got no answer: %s", line)
		}
		if refused, ok := strings.CutPrefix(line, "** server can't find "); ok && result.Refusal == "" {
			_, result.Refusal, _ = strings.Cut(refused, ": ")
		}
		value, ok := strings.CutPrefix(line, "Address:")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if result.Server == "" {
			result.Server = value
			continue
		}
		address, err := netip.ParseAddr(value)
		if err != nil {
			return result, fmt.Errorf("read nslookup's output: %w", err)
		}
		result.Addresses = append(result.Addresses, address)
	}
	if result.Server == "" {
		return result, fmt.Errorf("read nslookup's output: no server in %q", out)
	}
	slices.SortFunc(result.Addresses, netip.Addr.Compare)
	return result, nil
}
