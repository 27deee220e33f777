package program

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// randomize gives every network and row of the Example another prefix, of 8 to
// 32 bits. Local views and wire prefixes of sources are disjoint; names that a
// neighbor chose may be anything.
func (g *generator) randomize() {
	lengths := map[[2]uint8]int{}
	prefix := func(octet byte, bits int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{octet, byte(g.Uint32()), byte(g.Uint32()), byte(g.Uint32())}), bits).Masked()
	}
	for i := range g.world.Networks {
		n := &g.world.Networks[i]
		bits := 8 + g.IntN(25)
		lengths[[2]uint8{n.Cluster, n.Network}] = bits
		n.Local = prefix(byte(10+i), bits)
	}
	g.world.Places = nil
	for _, n := range g.world.Networks {
		if n.Cluster == Self {
			g.world.Places = append(g.world.Places, Place{Prefix: n.Local, Underlay: pick(g, HereUnderlay, PlainUnderlay), Local: g.chance(50), Fabric: n.Node})
		}
	}
	used := map[uint16]map[byte]bool{}
	for i := range g.world.Rows {
		r := &g.world.Rows[i]
		bits := lengths[[2]uint8{r.Cluster, r.Network}]
		r.Local = g.world.network(r.Cluster, r.Network).Local
		if r.Side == bpfgen.SideOurs {
			r.Wire = prefix(byte(140+i), bits)
			continue
		}
		octet := byte(1 + g.IntN(126))
		for used[r.Link][octet] {
			octet = byte(1 + g.IntN(126))
		}
		if used[r.Link] == nil {
			used[r.Link] = map[byte]bool{}
		}
		used[r.Link][octet] = true
		r.Wire = prefix(octet, bits)
	}
	g.forget()
}

// forget some of what the world knows, as while it is being set up.
func (g *generator) forget() {
	w, cluster := g.world, pick[uint8](g, Hub, Other, Far)
	switch g.IntN(6) {
	case 0:
		delete(w.Paths, cluster)
	case 1:
		delete(w.Links, pick[uint16](g, 1, 2, 3))
	case 2:
		delete(w.MTU, cluster)
	case 3:
		delete(w.Choices, cluster)
	case 4:
		delete(w.Gateways, pick[uint8](g, 1, 2))
	case 5:
		at := g.IntN(len(w.Rows))
		w.Rows = append(w.Rows[:at:at], w.Rows[at+1:]...)
	}
}

// Program and model agree in random worlds too: odd prefix lengths, deltas of
// every kind, something missing.
func TestRandomWorlds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for world := range uint64(6) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, world)), world: Example()}
		g.randomize()
		r := newRunner(t, g.world)
		for i := range 2000 {
			in := g.input()
			in.Mark = NoMark
			want := g.world.Model(in)
			got, _, err := r.Run(in)
			require.NoError(t, err)
			require.Equal(t, want.Verdict, got.Verdict, "world %d, packet %d: %+v: %s", world, i, in, want.Reason)
			require.Equal(t, want.Packet, got.Packet, "world %d, packet %d: %+v: %s", world, i, in, want.Reason)
		}
	}
}

// mirror of the Example's link 1, as the neighbor has it: what is ours here is
// theirs there. The neighbor's cluster index of us is Hub, of its own Self.
func mirror(w *World) *World {
	other := map[uint8]uint8{Self: Hub, Hub: Self, Other: Other, Far: Far}
	m := &World{Links: map[uint16]Link{1: {Cluster: Hub, Lane: 1}}, Accept: map[Crossing]bool{{1, Hub}: true},
		Paths: map[uint8]uint16{Hub: 1}, MTU: map[uint8]uint32{Hub: 1440}}
	for _, row := range w.Rows {
		if row.Link != 1 || row.Cluster != Self && row.Cluster != Hub {
			continue
		}
		// Inside, the neighbor calls its own pods as we call ours, and us by the
		// wire prefix of its choice.
		local := row.Wire
		if row.Cluster == Hub {
			local = Example().network(Self, row.Network).Local
			m.Places = append(m.Places, Place{Prefix: local, Underlay: HereUnderlay, Local: true})
		}
		m.Networks = append(m.Networks, Network{other[row.Cluster], row.Network, local, w.isNode(&row)})
		m.Rows = append(m.Rows, Row{Link: 1, Side: 1 - row.Side, Cluster: other[row.Cluster], Network: row.Network, Local: local, Wire: row.Wire})
	}
	return m
}

// There and back through both ends' programs is the identity, but for the hop:
// our pod 10.244.1.5 to the hub's 10.244.3.4, which looks like a packet from
// 100.70.1.5 to 10.244.3.4 there; turned around it comes home.
func TestRoundTrip(t *testing.T) {
	here, there := newRunner(t, Example()), newRunner(t, mirror(Example()))
	run := func(r *Runner, hook uint32, packet []byte) []byte {
		out, _, err := r.Run(Input{Hook: hook, EtherType: 0x0800, Packet: packet})
		require.NoError(t, err)
		require.Equal(t, Pass, out.Verdict)
		return out.Packet
	}
	for _, load := range loads {
		t.Run(load.story, func(t *testing.T) {
			wire := run(here, bpfgen.LaneEgress, load.build("10.244.0.5", "100.70.3.4", 64))
			require.Equal(t, load.build("100.70.0.5", "100.70.3.4", 63), wire)
			require.Equal(t, load.build("100.70.0.5", "10.244.3.4", 63), run(there, bpfgen.LaneIngress, wire))
			wire = run(there, bpfgen.LaneEgress, load.build("10.244.3.4", "100.70.0.5", 64))
			require.Equal(t, load.build("100.70.3.4", "10.244.0.5", 63), run(here, bpfgen.LaneIngress, wire))
		})
	}
	quoted := udpPacket(ip("10.244.0.5", "100.70.3.4", 1, layers.IPProtocolUDP), "lost")
	quotedThere := udpPacket(ip("100.70.0.5", "10.244.3.4", 1, layers.IPProtocolUDP), "lost")
	wire := run(there, bpfgen.LaneEgress, icmpError(ip("10.244.3.4", "100.70.0.5", 64, 1), 3, 3, 0, 0, quotedThere))
	require.Equal(t, icmpError(ip("100.70.3.4", "10.244.0.5", 63, 1), 3, 3, 0, 0, quoted), run(here, bpfgen.LaneIngress, wire),
		"the sender finds its own packet in the error")
}

// A buffer with a complete checksum, as a network card may deliver it, stays
// consistent: the kernel verifies it after the run.
func TestCompleteChecksum(t *testing.T) {
	const flagChecksumComplete = 1 << 2 // BPF_F_TEST_SKB_CHECKSUM_COMPLETE
	r := newExample(t)
	r.flags = flagChecksumComplete
	for _, f := range Fixtures() {
		out, _, err := r.Run(f.In)
		require.NoError(t, err, f.Name())
		require.Equal(t, f.Want.Verdict, out.Verdict, f.Name())
	}
}
