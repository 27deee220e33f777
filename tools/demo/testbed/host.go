package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"

	"github.com/weft-fabric/weft/tools/traffic/control"
)

// Host is where a traffic server runs: a pod, or a node itself.
type Host struct {
	Cluster *Cluster
	// Node that it runs on.
	Node string
	// Gateway says whether that node is a gateway.
	Gateway bool
	// Address of the server in its own cluster.
	Address netip.Addr
}

// String names the host by what a reader of a table looks for.
func (h Host) String() string {
	if h.Gateway {
		return h.Node + " (gateway)"
	}
	return h.Node
}

// Port is the address of one of a server's ports, at an address under which
// somebody sees it.
func Port(address netip.Addr, offset uint16) netip.AddrPort {
	return netip.AddrPortFrom(address, control.DefaultBasePort+offset)
}

// Call asks the host's traffic server for something. It goes from the host's
// own node straight to the server, so it needs neither an API server nor the
// fabric.
func Call[Answer any](ctx context.Context, h Host, path string, request any) (Answer, error) {
	var answer Answer
	body, err := json.Marshal(request)
	if err != nil {
		return answer, fmt.Errorf("write the request to %s: %w", h, err)
	}
	lab := h.Cluster.lab
	data, err := lab.Exec(ctx, h.Node, body, lab.Program("traffic"), "call", Port(h.Address, control.ControlOffset).String(), path)
	if err != nil {
		return answer, fmt.Errorf("ask %s: %w", h, err)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answer, fmt.Errorf("read the answer of %s: %w", h, err)
	}
	return answer, nil
}

// Command prepares the traffic program on the host's node, to be started by
// the caller. It ends when ctx does.
func (h Host) Command(ctx context.Context, args ...string) *exec.Cmd {
	lab := h.Cluster.lab
	return command(ctx, lab.Program("lab"), append([]string{"exec", h.Node, "--", lab.Program("traffic")}, args...)...)
}
