package ipam

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

func TestFind(t *testing.T) {
	tests := map[string]struct {
		pools, taken []netip.Prefix
		bits         int
		want         string
	}{
		"empty pool":               {prefixes("100.64.0.0/10"), nil, 16, "100.64.0.0/16"},
		"after a taken block":      {prefixes("100.64.0.0/10"), prefixes("100.64.0.0/16"), 16, "100.65.0.0/16"},
		"between taken blocks":     {prefixes("100.64.0.0/10"), prefixes("100.64.0.0/16", "100.66.0.0/16"), 16, "100.65.0.0/16"},
		"around one address":       {prefixes("100.64.0.0/10"), prefixes("100.64.7.1/32"), 16, "100.65.0.0/16"},
		"below one address":        {prefixes("100.64.0.0/10"), prefixes("100.64.7.1/32"), 20, "100.64.16.0/20"},
		"within a taken super-net": {prefixes("100.64.0.0/10", "10.0.0.0/8"), prefixes("100.0.0.0/8"), 16, "10.0.0.0/16"},
		"pool too small":           {prefixes("100.64.0.0/24", "10.0.0.0/8"), nil, 16, "10.0.0.0/16"},
		"whole pool":               {prefixes("100.64.0.0/16"), nil, 16, "100.64.0.0/16"},
		"last addresses":           {prefixes("255.255.255.0/24"), prefixes("255.255.255.0/25"), 25, "255.255.255.128/25"},
		"full at the end":          {prefixes("255.255.255.0/24"), prefixes("255.255.255.128/25"), 24, ""},
		"default route taken":      {prefixes("10.0.0.0/8"), prefixes("0.0.0.0/0"), 16, ""},
		"other family":             {prefixes("fd77::/16"), nil, 24, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := Find(test.pools, test.taken, test.bits)
			require.Equal(t, test.want != "", ok)
			if ok {
				require.Equal(t, netip.MustParsePrefix(test.want), got)
			}
		})
	}
}

// Property: what Find returns lies in a pool, overlaps nothing, and a search
// block by block finds the same one.
func TestFindAgainstExhaustiveSearch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pool := netip.MustParsePrefix("10.0.0.0/20")
	for range 2000 {
		var taken []netip.Prefix
		for range random.IntN(12) {
			addr := netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(20)), byte(random.IntN(256))})
			taken = append(taken, netip.PrefixFrom(addr, 20+random.IntN(13)).Masked())
		}
		bits := 20 + random.IntN(9)
		want, wantOK := exhaustive(pool, taken, bits)
		got, ok := Find([]netip.Prefix{pool}, taken, bits)
		require.Equal(t, wantOK, ok, "taken %v, /%d", taken, bits)
		require.Equal(t, want, got, "taken %v, /%d", taken, bits)
	}
}

func exhaustive(pool netip.Prefix, taken []netip.Prefix, bits int) (netip.Prefix, bool) {
	for addr := pool.Addr(); pool.Contains(addr); addr = addr.Next() {
		block := netip.PrefixFrom(addr, bits)
		if block != block.Masked() {
			continue
		}
		free := true
		for _, p := range taken {
			free = free && !p.Overlaps(block)
		}
		if free {
			return block, true
		}
	}
	return netip.Prefix{}, false
}
