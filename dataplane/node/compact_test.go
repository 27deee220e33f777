package node

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestCompact(t *testing.T) {
	for name, c := range map[string]struct{ in, want []netip.Prefix }{
		"nothing":                  {},
		"sorted, no duplicates":    {prefixes("192.168.7.0/24", "10.1.0.0/16", "192.168.7.0/24"), prefixes("10.1.0.0/16", "192.168.7.0/24")},
		"covered ones go":          {prefixes("10.244.1.7/32", "10.244.1.0/24", "10.244.0.0/16", "10.245.0.0/16"), prefixes("10.244.0.0/16", "10.245.0.0/16")},
		"default routes go":        {prefixes("0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "172.16.0.0/12"), prefixes("172.16.0.0/12")},
		"nobody's addresses go":    {prefixes("127.0.0.1/8", "169.254.1.0/24", "224.0.0.0/4", "10.0.0.1/32"), prefixes("10.0.0.1/32")},
		"widened to fit the limit": {prefixes("10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.1.0/24"), prefixes("10.0.0.0/30", "10.0.1.0/24")},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, compact(c.in, 2))
		})
	}
}

// Whatever the limit, every prefix that went in is covered.
func TestCompactLosesNothing(t *testing.T) {
	var in []netip.Prefix
	for i := range 5000 {
		in = append(in, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(i >> 8), byte(i * 7)}), 32))
	}
	out := compact(in, maxOccupied)
	require.LessOrEqual(t, len(out), maxOccupied)
	for _, p := range in {
		require.True(t, covered(out, p), p.String())
	}
}

func covered(list []netip.Prefix, p netip.Prefix) bool {
	for _, q := range list {
		if q.Bits() <= p.Bits() && q.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
