package apply_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// pinned opens a map as any other program would.
func pinned(t *testing.T, name string) *ebpf.Map {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(filepath.Join(pinRoot, "maps-v1", name), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// The maps hold what the plan says, no more, and follow its changes.
func TestMapContent(t *testing.T) {
	startWireguard(t)
	state := t.TempDir()
	executor := newExecutor(t, state)
	cleanUp(t, executor)
	p := gatewayPlan()
	applied(t, executor, p)

	var network bpfgen.BorderWeftNet
	require.NoError(t, pinned(t, "weft_view4").Lookup(uint32(100<<8|70), &network))
	require.Equal(t, p.Maps.View4[100<<8|70], network)
	var link bpfgen.BorderWeftLink
	require.NoError(t, pinned(t, "weft_links").Lookup(uint32(1), &link))
	lane, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.EqualValues(t, lane.Attrs().Index, link.LaneIfindex)
	require.Equal(t, map[plan.LinkKey]uint16{{Cluster: 1, RemoteGateway: 4}: 1}, executor.LinkIDs())

	// A pod moves, a network goes, another comes, a link's accept bit is cleared.
	p = gatewayPlan()
	moved := bpfgen.BorderWeftPrefix4{Prefix: be32("10.244.2.0"), PrefixLen: 24}
	p.Maps.Places4[moved] = bpfgen.BorderWeftPlace4{Underlay: be32("192.0.2.12")}
	delete(p.Maps.Places4, bpfgen.BorderWeftPrefix4{Prefix: be32("10.244.1.0"), PrefixLen: 24})
	p.Maps.Places4[bpfgen.BorderWeftPrefix4{Prefix: be32("10.244.3.7"), PrefixLen: 32}] = bpfgen.BorderWeftPlace4{Underlay: be32("192.0.2.11")}
	p.Maps.Lengths.Places4 = 1<<23 | 1<<31
	delete(p.Maps.View4, 100<<8|70)
	p.Maps.View4[100<<8|72] = bpfgen.BorderWeftNet{Flags: 1, PrefixLen: 16, Cluster: 2, Network: 1}
	p.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: 1, Cluster: 1}] = 0
	report := applied(t, executor, p)
	require.Equal(t, []apply.Change{
		{Action: "change", Kind: "map", Object: "weft_lengths"},
		{Action: "change", Kind: "map entries", Object: "2 of weft_places4"},
		{Action: "change", Kind: "map entries", Object: "1 of weft_accept"},
		{Action: "change", Kind: "map entries", Object: "1 of weft_view4"},
		{Action: "remove", Kind: "map entries", Object: "1 of weft_view4"},
		{Action: "remove", Kind: "map entries", Object: "1 of weft_places4"},
	}, report.Changes)
	require.NoError(t, pinned(t, "weft_view4").Lookup(uint32(100<<8|70), &network))
	require.Zero(t, network)
	places := map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftPlace4{}
	var key bpfgen.BorderWeftPrefix4
	var place bpfgen.BorderWeftPlace4
	entries := pinned(t, "weft_places4").Iterate()
	for entries.Next(&key, &place) {
		places[key] = place
	}
	require.NoError(t, entries.Err())
	require.Equal(t, p.Maps.Places4, places)

	fills, err := executor.Maps()
	require.NoError(t, err)
	require.Contains(t, fills, apply.MapFill{Map: "weft_places4", Entries: 2, MaxEntries: 131072})
	require.Empty(t, applied(t, newExecutor(t, state), p).Changes, "read back, not remembered")
}

// A neighbor goes and another gets its index in one step. The new one's row comes
// only after nothing leads to it any more under the former's names.
func TestIndexOfAnother(t *testing.T) {
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	former := gatewayPlan()
	former.Lanes, former.Maps.Links = nil, nil
	applied(t, executor, former)

	p := gatewayPlan()
	p.Lanes, p.Maps.Links = nil, nil
	row := bpfgen.BorderWeftRowKey{Link: 1, Cluster: 1, Network: 1}
	p.Maps.Rows4[row] = bpfgen.BorderWeftRow4{Local: be32("100.73.0.0"), Wire: be32("240.9.0.0"), Mask: be32("255.255.0.0"), Delta: 8}
	p.Maps.View4[100<<8|73] = p.Maps.View4[100<<8|70]
	delete(p.Maps.View4, 100<<8|70)
	p.Maps.Wire4[240<<8|9] = p.Maps.Wire4[240<<8|1]
	delete(p.Maps.Wire4, 240<<8|1)
	require.Equal(t, []apply.Change{
		{Action: "remove", Kind: "map entries", Object: "1 of weft_rows4"},
		{Action: "change", Kind: "map entries", Object: "1 of weft_wire4"},
		{Action: "change", Kind: "map entries", Object: "1 of weft_view4"},
		{Action: "remove", Kind: "map entries", Object: "1 of weft_view4"},
		{Action: "remove", Kind: "map entries", Object: "1 of weft_wire4"},
		{Action: "change", Kind: "map entries", Object: "1 of weft_rows4"},
	}, applied(t, executor, p).Changes)
	var value bpfgen.BorderWeftRow4
	require.NoError(t, pinned(t, "weft_rows4").Lookup(row, &value))
	require.Equal(t, p.Maps.Rows4[row], value)
	require.Empty(t, applied(t, executor, p).Changes)
}

// A hub comes to forward between clusters 1 and 2, then to do so no more. Rows,
// transit and accept are there before anything leads to them, and go after it.
func TestTransitIsMadeBeforeItIsUsed(t *testing.T) {
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	apart := gatewayPlan()
	apart.Lanes, apart.Maps.Links = nil, nil
	applied(t, executor, apart)

	hub := gatewayPlan()
	hub.Lanes, hub.Maps.Links = nil, nil
	row := bpfgen.BorderWeftRow4{Local: be32("100.72.0.0"), Wire: be32("240.9.0.0"), Mask: be32("255.255.0.0"), Delta: 8}
	hub.Maps.Rows4[bpfgen.BorderWeftRowKey{Link: 2, Cluster: 2, Network: 1}] = row
	hub.Maps.Rows4[bpfgen.BorderWeftRowKey{Link: 1, Side: 1, Cluster: 2, Network: 1}] = row
	hub.Maps.Theirs4[bpfgen.BorderWeftTheirsKey{Prefix: row.Wire, Link: 1, PrefixLen: 16}] = bpfgen.BorderWeftNet{Flags: 1, PrefixLen: 16, Cluster: 2, Network: 1}
	hub.Maps.Transit = map[uint32]uint32{1<<8 | 2: 1, 2<<8 | 1: 1}
	hub.Maps.Accept[bpfgen.BorderWeftAcceptKey{Link: 2, Cluster: 2}] = 1
	hub.Maps.Wire4[240<<8|9] = bpfgen.BorderWeftWire{Link: 2, Flags: 1, PrefixLen: 16, Cluster: 2, Network: 1}
	hub.Maps.View4[100<<8|72] = bpfgen.BorderWeftNet{Flags: 1, PrefixLen: 16, Cluster: 2, Network: 1}
	change := func(action string, entries ...string) (out []apply.Change) {
		for _, e := range entries {
			out = append(out, apply.Change{Action: action, Kind: "map entries", Object: e})
		}
		return out
	}
	require.Equal(t, change("change", "2 of weft_rows4", "1 of weft_theirs4", "2 of weft_transit", "1 of weft_accept", "1 of weft_wire4", "1 of weft_view4"),
		applied(t, executor, hub).Changes)
	require.Equal(t, change("remove", "1 of weft_view4", "1 of weft_wire4", "1 of weft_accept", "2 of weft_transit", "1 of weft_theirs4", "2 of weft_rows4"),
		applied(t, executor, apart).Changes)
}

// The maps of another version of the ABI go once the programs use the present
// ones.
func TestFormerABI(t *testing.T) {
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	p := gatewayPlan()
	p.Lanes, p.Maps.Links = nil, nil
	applied(t, executor, p)
	former := filepath.Join(pinRoot, "maps-v0")
	run(t, "mkdir %s", former)
	m, err := pinned(t, "weft_reach").Clone() // pinning the map itself again would move its pin
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Pin(filepath.Join(former, "weft_reach")))
	require.Equal(t, []apply.Change{{Action: "remove", Kind: "map", Object: "weft_reach"}}, applied(t, executor, p).Changes)
	require.NoDirExists(t, former)
	require.DirExists(t, filepath.Join(pinRoot, "maps-v1"))
}

// Words are written and read back, also by a restarted agent; what is not named
// becomes zero.
func TestWords(t *testing.T) {
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	require.ErrorContains(t, executor.SetWords(plan.Words{}), "apply a plan first")
	words, err := executor.Words()
	require.NoError(t, err)
	require.Empty(t, words.Paths)
	require.Empty(t, executor.LinkIDs())

	p := gatewayPlan()
	p.Lanes = nil
	applied(t, executor, p)
	want := plan.Words{
		Paths:   map[uint32]uint32{1: 5, 255: 9},
		Choices: map[uint32]uint64{1: 0x0000_0003_0102_0302, 7: 0x0101},
		Reach:   bpfgen.BorderWeftReach{Bits: [4]uint64{1 << 1, 0, 0, 1 << 63}},
	}
	require.NoError(t, executor.SetWords(want))
	restarted := newExecutor(t, t.TempDir())
	words, err = restarted.Words()
	require.NoError(t, err)
	require.Equal(t, want, words)
	require.NoError(t, executor.SetWords(plan.Words{Paths: map[uint32]uint32{1: 6}, Choices: map[uint32]uint64{}}))
	words, err = restarted.Words()
	require.NoError(t, err)
	require.Equal(t, plan.Words{Paths: map[uint32]uint32{1: 6}, Choices: map[uint32]uint64{}}, words)
	require.ErrorContains(t, executor.SetWords(plan.Words{Paths: map[uint32]uint32{256: 1}}), "cluster index 256 is beyond")
	applied(t, executor, p)
	words, err = restarted.Words()
	require.NoError(t, err)
	require.Equal(t, map[uint32]uint32{1: 6}, words.Paths, "a plan leaves the words alone")
}

// A full map is an error that names the map; everything else is applied.
func TestFullMap(t *testing.T) {
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	p := gatewayPlan()
	p.Lanes = nil
	p.Maps.View4Long = map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftNet{}
	for i := range uint32(4097) {
		p.Maps.View4Long[bpfgen.BorderWeftPrefix4{Prefix: i, PrefixLen: 32}] = bpfgen.BorderWeftNet{Flags: 1}
	}
	_, err := executor.Apply(t.Context(), p)
	require.ErrorContains(t, err, "map weft_view4_long is full: it holds at most 4096 entries and the plan adds up to 4097")
	require.ErrorContains(t, err, "remove networks")
	var place bpfgen.BorderWeftPlace4
	require.NoError(t, pinned(t, "weft_places4").Lookup(bpfgen.BorderWeftPrefix4{Prefix: be32("10.244.1.0"), PrefixLen: 24}, &place))

	// All old entries make way for as many new ones.
	delete(p.Maps.View4Long, bpfgen.BorderWeftPrefix4{Prefix: 0, PrefixLen: 32})
	applied(t, executor, p)
	clear(p.Maps.View4Long)
	for i := range uint32(4096) {
		p.Maps.View4Long[bpfgen.BorderWeftPrefix4{Prefix: 10_000 + i, PrefixLen: 32}] = bpfgen.BorderWeftNet{Flags: 1}
	}
	applied(t, executor, p)
	require.Empty(t, applied(t, executor, p).Changes)
}

// Counters are summed over the CPUs and named by their place.
func TestCounters(t *testing.T) {
	startWireguard(t)
	executor := newExecutor(t, t.TempDir())
	cleanUp(t, executor)
	applied(t, executor, gatewayPlan())
	m := pinned(t, "weft_counters")
	cpus, err := ebpf.PossibleCPU()
	require.NoError(t, err)
	values := make([]bpfgen.BorderWeftCounter, cpus)
	for i := range values {
		values[i] = bpfgen.BorderWeftCounter{Packets: uint64(i + 1), Bytes: 100}
	}
	require.NoError(t, m.Put(uint32((1*4+2)*64+7), values))
	counters, err := executor.Counters()
	require.NoError(t, err)
	require.Contains(t, counters, apply.Counter{Link: 1, Direction: 2, Reason: 7, Packets: uint64(cpus * (cpus + 1) / 2), Bytes: uint64(100 * cpus)}, fmt.Sprint(counters))
}
