package testbed

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// LaneMTU reads the MTU of the first lane on a gateway's node.
func LaneMTU(ctx context.Context, h Host) (int, error) {
	out, err := h.Cluster.lab.Exec(ctx, h.Node, nil, "cat", "/sys/class/net/weft0/mtu")
	if err != nil {
		return 0, fmt.Errorf("read the MTU of weft0 on %s: %w", h, err)
	}
	mtu, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return 0, fmt.Errorf("read the MTU of weft0 on %s: %w", h, err)
	}
	return mtu, nil
}
