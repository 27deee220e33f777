package program

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

var randomPackets = flag.Int("packets", 100_000, "random packets to compare program and model on")

// Program and model agree on verdict, bytes and counted reason for random
// packets: well formed, odd, and damaged ones, between addresses that mean
// something and ones that do not.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), world: Example()}
	r := newExample(t)
	before := r.counts(t)
	counts := map[string]uint64{}
	for i := range *randomPackets {
		in := g.input()
		want := g.world.Model(in)
		got, _, err := r.Run(in)
		require.NoError(t, err, "packet %d: %+v", i, in)
		if want.Verdict != got.Verdict || string(want.Packet) != string(got.Packet) || want.Framed != got.Framed {
			t.Fatalf("packet %d on %s (mark %d, sender %v, GSO %d, type %#x)\n in      %x\n model   %d %x framed %v, %s\n program %d %x framed %v",
				i, directions[in.Hook], in.Mark, in.Sender, in.GSOSize, in.EtherType, in.Packet,
				want.Verdict, want.Packet, want.Framed, want.Reason, got.Verdict, got.Packet, got.Framed)
		}
		if want.Counted {
			counts[CounterName(want.Link, in.Hook, want.Reason)]++
		}
	}
	after := r.counts(t)
	for name, count := range before {
		if after[name] -= count; after[name] == 0 {
			delete(after, name)
		}
	}
	require.Equal(t, counts, after)
}

// generator of packets.
type generator struct {
	*rand.Rand
	world *World
}

// chance is true n times in a hundred.
func (g *generator) chance(n int) bool { return g.IntN(100) < n }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) bytes(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(g.Uint32())
	}
	return out
}

// within a prefix: often its first addresses.
func (g *generator) within(prefix netip.Prefix) netip.Addr {
	host := g.Uint32()
	if g.chance(60) {
		host = uint32(pick(g, 0, 0, 1, 2, 3, 5, 77, 256+5, 256+77))
	}
	base := prefix.Addr().As4()
	value := binary.BigEndian.Uint32(base[:])
	var mask uint32 = 0xffffffff << (32 - prefix.Bits())
	binary.BigEndian.PutUint32(base[:], value&mask|host&^mask)
	return netip.AddrFrom4(base)
}

// address that means something: local ones as a network of the world, wire
// ones by a row.
func (g *generator) address(wire bool) netip.Addr {
	switch {
	case g.chance(4):
		return netip.MustParseAddr(pick(g, "0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.5", "255.255.255.255", "8.8.8.8", "0.1.2.3", "239.255.255.255"))
	case g.chance(2):
		return netip.AddrFrom4([4]byte(g.bytes(4)))
	case g.chance(20) && !wire:
		return g.within(pick(g, g.world.Places...).Prefix)
	case wire != g.chance(3):
		return g.within(pick(g, g.world.Rows...).Wire)
	}
	return g.within(pick(g, g.world.Networks...).Local)
}

// pair of addresses that may belong together on a hook.
func (g *generator) pair(hook uint32) (source, destination netip.Addr) {
	switch {
	case g.chance(15):
		return g.address(hook == bpfgen.LaneIngress), g.address(hook == bpfgen.LaneIngress)
	case hook == bpfgen.LaneIngress:
		return g.wirePair()
	case hook == bpfgen.OverlayIngress && g.chance(30):
		return g.network(false), g.within(pick(g, g.world.Places...).Prefix)
	}
	source = g.within(pick(g, g.world.Places...).Prefix)
	if g.chance(20) {
		source = g.network(false)
	}
	return source, g.network(false)
}

// network address of this cluster or of a remote one.
func (g *generator) network(own bool) netip.Addr {
	for {
		if network := pick(g, g.world.Networks...); own == (network.Cluster == Self) {
			return g.within(network.Local)
		}
	}
}

// wirePair is a source and a destination of one link.
func (g *generator) wirePair() (source, destination netip.Addr) {
	for {
		ours, theirs := pick(g, g.world.Rows...), pick(g, g.world.Rows...)
		if ours.Side == bpfgen.SideOurs && theirs.Side == bpfgen.SideTheirs && ours.Link == theirs.Link {
			destination = g.within(theirs.Wire)
			if place := pick(g, g.world.Places...); theirs.Local.Contains(place.Prefix.Addr()) && g.chance(80) {
				destination = theirs.toWire(g.within(place.Prefix))
			}
			return g.within(ours.Wire), destination
		}
	}
}

func (g *generator) input() Input {
	in := Input{Hook: uint32(g.IntN(bpfgen.Directions)), EtherType: 0x0800}
	source, destination := g.pair(in.Hook)
	protocol, payload := g.transport(in.Hook, source, destination)
	in.Packet = g.ip(source, destination, protocol, payload)
	switch {
	case g.chance(2):
		in.EtherType = pick[uint16](g, 0x0806, 0x88cc, 0x8100)
	case g.chance(3):
		in.EtherType, in.Packet = 0x86dd, g.ipv6()
	}
	if in.Hook == bpfgen.LaneEgress {
		in.Mark = pick(g, NoMark, NoMark, NoMark, NoMark, HopMark, HopMark, WireMark)
	}
	if in.Hook == bpfgen.OverlayIngress && !g.chance(5) {
		in.Sender, in.VNI = pick(g, HereUnderlay, PlainUnderlay, PlainUnderlay, TwinUnderlay), g.world.VNI
		if g.chance(3) {
			in.Sender = netip.MustParseAddr("192.168.77.9")
		}
		if g.chance(3) {
			in.VNI++
		}
	}
	if g.chance(3) {
		in.GSOSize = pick(g, uint32(1000), 1348, 1360, 1388, 1400, 1401, 9000, gsoByFrags)
	}
	g.damage(&in)
	return in
}

// damage some packets, from one bit to truncation.
func (g *generator) damage(in *Input) {
	for g.chance(12) {
		at := g.IntN(len(in.Packet))
		if g.chance(70) {
			at = g.IntN(min(len(in.Packet), 64))
		}
		in.Packet[at] ^= 1 << g.IntN(8)
	}
	if g.chance(4) {
		// A test run refuses less than a fixed header.
		least := map[uint16]int{0x0800: 20, 0x86dd: 40}[in.EtherType]
		in.Packet = in.Packet[:least+g.IntN(len(in.Packet)-least+1)]
	}
}

func (g *generator) ip(source, destination netip.Addr, protocol byte, payload []byte) []byte {
	words := 5
	if g.chance(10) {
		words = 5 + g.IntN(11)
	}
	header := g.bytes(words * 4)
	header[0] = 0x40 | byte(words)
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(payload)))
	var fragment uint16
	if g.chance(8) {
		fragment = pick[uint16](g, 0x2000, 0x2000, 0x2005, 0x0010, 0x4000, 0x1fff, 0x8000)
	}
	binary.BigEndian.PutUint16(header[6:], fragment)
	header[8] = pick[byte](g, 64, 64, 64, 64, 255, 2, 1, 0)
	header[9] = protocol
	if g.chance(5) {
		binary.BigEndian.PutUint16(header[10:], pick[uint16](g, 0, 0xffff, 1, 0xfffe))
	}
	copy(header[12:], source.AsSlice())
	copy(header[16:], destination.AsSlice())
	packet := append(header, payload...)
	if g.chance(5) {
		packet = append(packet, g.bytes(g.IntN(20))...) // trailer
	}
	return packet
}

// transport header and payload, of a protocol that it returns too.
func (g *generator) transport(hook uint32, source, destination netip.Addr) (byte, []byte) {
	size := g.IntN(40)
	if g.chance(3) {
		size = 1300 + g.IntN(200)
	}
	switch protocol := pick[byte](g, 6, 6, 6, 17, 17, 17, 1, 1, 1, 1, 33, 136, 132, 47, 50, 51, 253); protocol {
	case 6:
		return protocol, g.tcp(size)
	case 17:
		if g.chance(25) {
			return protocol, g.probe()
		}
		return protocol, g.sum(append(g.bytes(8), g.bytes(size)...), 6)
	case 1:
		return protocol, g.icmp(hook, source, destination)
	default:
		return protocol, g.sum(g.bytes(size), 6)
	}
}

// sum sets a checksum to a value where arithmetic has corners, at times.
func (g *generator) sum(l4 []byte, at int) []byte {
	if g.chance(20) && len(l4) >= at+2 {
		binary.BigEndian.PutUint16(l4[at:], pick[uint16](g, 0, 0, 0xffff, 1, 0xfffe))
	}
	return l4
}

func (g *generator) tcp(size int) []byte {
	options := []byte{}
	for g.chance(60) && len(options) < 32 {
		options = append(options, pick(g,
			[]byte{2, 4, byte(g.IntN(8)), byte(g.Uint32())}, []byte{1}, []byte{3, 3, 7}, []byte{4, 2}, []byte{8, 10, 0, 0, 0, 1, 0, 0, 0, 2},
			[]byte{0}, []byte{2, 3, 5}, []byte{byte(g.Uint32()), byte(g.IntN(12))})...)
	}
	for len(options)%4 != 0 {
		options = append(options, byte(g.IntN(2)))
	}
	header := g.bytes(20)
	header[12] = byte(5+len(options)/4) << 4
	if g.chance(3) {
		header[12] = byte(g.Uint32())
	}
	header[13] = pick[byte](g, 0x10, 0x02, 0x12, 0x18)
	return g.sum(append(append(header, options...), g.bytes(size)...), 16)
}

func (g *generator) probe() []byte {
	l4 := g.bytes(8)
	port := uint16(g.world.ProbePort)
	from, to := uint16(g.Uint32()), port
	if g.chance(20) {
		from, to = to, from
	}
	binary.BigEndian.PutUint16(l4, from)
	binary.BigEndian.PutUint16(l4[2:], to)
	probe := Probe{Type: pick[uint8](g, 1, 1, 1, 2, 3), Sequence: g.Uint32(), Clock: g.Uint64(), OuterFragments: g.Uint32()}
	if g.chance(5) {
		probe.Version = 2
	}
	payload := append([]byte(probe.String()), g.bytes(g.IntN(8))...)
	if g.chance(5) {
		payload = payload[:g.IntN(len(payload))]
	}
	return g.sum(append(l4, payload...), 6)
}

// icmp is a query, or an error about a packet of the other direction.
func (g *generator) icmp(hook uint32, source, destination netip.Addr) []byte {
	header := g.bytes(8)
	header[0] = pick[byte](g, 8, 0, 3, 3, 11, 12, 4, 5, 13)
	if !icmpErrors[header[0]] {
		return append(header, g.bytes(g.IntN(40))...)
	}
	from, to := destination, source
	if g.chance(20) {
		to, from = g.pair(hook)
	}
	protocol, l4 := pick[byte](g, 6, 17, 1, 132, 136), g.sum(g.bytes(8+g.IntN(24)), 6)
	if g.chance(5) {
		l4 = l4[:g.IntN(8)]
	}
	if protocol == 1 {
		l4 = append([]byte{pick[byte](g, 8, 0, 8, 3)}, l4[min(1, len(l4)):]...)
	}
	quoted := g.ip(from, to, protocol, l4)
	return append(header, quoted...)
}

func (g *generator) ipv6() []byte {
	packet := append([]byte{0x60, 0, 0, 0, 0, 20, pick[byte](g, 6, 6, 6, 58, 17), 64}, g.bytes(52)...)
	copy(packet[8:], []byte{0xfd, 0x79})
	copy(packet[24:], pick(g, []byte{0xfd, 0x79}, []byte{0xfd, 0x79}, []byte{0xfd, 0x77}))
	binary.BigEndian.PutUint16(packet[40+2*g.IntN(2):], pick(g, g.world.ChannelPort, g.world.ChannelPort, 80))
	if g.chance(30) {
		packet[6], packet[40] = 58, byte(132+g.IntN(7))
	}
	return packet
}
