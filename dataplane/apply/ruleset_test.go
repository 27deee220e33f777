package apply

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
)

func TestIntervals(t *testing.T) {
	interval := func(start, end string) element {
		e := element{start: string(netip.MustParseAddr(start).AsSlice())}
		if end != "" {
			e.end = string(netip.MustParseAddr(end).AsSlice())
		}
		return e
	}
	require.Equal(t, map[element]bool{
		interval("10.0.0.0", "11.0.0.0"):   true,
		interval("11.0.0.0", "11.1.0.0"):   true,
		interval("248.0.0.0", ""):          true,
		interval("192.0.2.7", "192.0.2.8"): true,
	}, intervals(prefixes("10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/16", "11.0.0.0/16", "248.0.0.0/5", "192.0.2.7/32", "fd00::/8")))
}

// What is written is what is read back, in whatever order the kernel lists it.
func TestParseIntervals(t *testing.T) {
	set := setSpec{name: "test", key: nftables.TypeIPAddr, interval: true}
	set.elements = intervals(prefixes("10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/23", "100.64.0.0/10", "248.0.0.0/5"))
	var all []element
	for e := range set.elements {
		all = append(all, e)
	}
	listed := toSetElements(set, all)
	for range 50 {
		rand.Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
		require.Equal(t, set.elements, set.parse(listed))
	}
}
