package testbed

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMoveKeepsTheHostBits(t *testing.T) {
	for _, c := range []struct{ address, prefix, want string }{
		{"10.244.1.9", "100.71.0.0/16", "100.71.1.9"},
		{"10.244.1.9", "100.64.0.0/12", "100.68.1.9"}, // 244 & 0x0f = 4
		{"10.244.19.77", "100.71.16.0/20", "100.71.19.77"},
		{"10.244.1.9", "100.71.0.4/32", "100.71.0.4"},
	} {
		got := move(netip.MustParseAddr(c.address), netip.MustParsePrefix(c.prefix))
		require.Equal(t, c.want, got.String(), "%s into %s", c.address, c.prefix)
	}
}
