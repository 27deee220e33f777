package program

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// bench is a lane without Ethernet header, whose every way out leads to a
// file of the test.
//
//	lane    egress that passes, and what is redirected back to the lane
//	up      ingress that passes (a second program there takes it)
//	overlay egress of the overlay's stand-in
//	stack   ingress of the overlay's stand-in (a program there takes it)
//	transit egress of another lane
type bench struct {
	*Loaded
	*namespace
	lane, up, overlay, stack, transit tun
	socket                            packetSocket
}

func newBench(t *testing.T, world *World) *bench {
	n := newNamespace(t)
	b := &bench{namespace: n, lane: n.newTun("weft0"), up: n.newTun("up"), transit: n.newTun("weft1"),
		overlay: n.newTap("weft-vx"), stack: n.newTap("stack")}
	index := map[string]int{}
	n.run(func() {
		for _, name := range []string{"weft0", "up", "weft1", "weft-vx", "stack"} {
			n.set("net/ipv6/conf/"+name+"/disable_ipv6", "1")
			device := n.address(name, "")
			require.NoError(t, netlink.LinkSetMTU(device, 65500))
			index[name] = device.Attrs().Index
		}
	})
	for id, l := range world.Links {
		l.Lane = uint32(index["weft1"])
		world.Links[id] = l
	}
	var err error
	b.Loaded, err = Load(world, Device{OverlayIfindex: uint32(index["weft-vx"])})
	require.NoError(t, err)
	t.Cleanup(b.Loaded.Close)
	n.attach(index["weft0"], ebpf.AttachTCXIngress, b.BorderIngress)
	n.attach(index["weft0"], ebpf.AttachTCXEgress, b.BorderEgress)
	n.attach(index["weft0"], ebpf.AttachTCXIngress, redirectTo(t, index["up"]))
	n.attach(index["weft-vx"], ebpf.AttachTCXIngress, redirectTo(t, index["stack"]))
	b.socket = n.packetSocket("weft0")
	return b
}

// attach after what is attached already.
func (n *namespace) attach(index int, kind ebpf.AttachType, program *ebpf.Program) {
	n.run(func() {
		attached, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: kind})
		require.NoError(n.t, err)
		n.t.Cleanup(func() { attached.Close() })
	})
}

// redirectTo is a program that sends all to a device.
func redirectTo(t *testing.T, index int) *ebpf.Program {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(index)),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { program.Close() })
	return program
}

// out is where a fixture's packet comes out, and whether with a header; no
// file: it is dropped.
func (b *bench) out(f Fixture) (device tun, framed bool) {
	hook, want := f.In.Hook, f.Want
	switch {
	case want.Verdict == Drop:
		return tun{}, false
	case hook == bpfgen.LaneEgress && want.Verdict == Redirect:
		return b.stack, true
	case hook == bpfgen.LaneIngress && want.Verdict == Pass:
		return b.up, false
	case want.Verdict == Redirect && want.Framed:
		return b.overlay, true
	case want.Verdict == Redirect && !f.reflected():
		return b.transit, false
	}
	return b.lane, false
}

// reflected: a probe, whose ports change places.
func (f Fixture) reflected() bool {
	const ports = 20 // behind a header without options
	return !f.Want.Counted && !bytes.Equal(f.In.Packet[ports:ports+4], f.Want.Packet[ports:ports+4])
}

// runs says whether a device can be given this input at all.
func (b *bench) runs(in Input) bool {
	switch in.Hook {
	case bpfgen.LaneEgress:
		return in.Mark == NoMark && in.GSOSize == 0
	case bpfgen.LaneIngress: // a TUN tells IPv4 and IPv6 from the first four bits
		return in.GSOSize == 0 && map[byte]uint16{4: 0x0800, 6: 0x86dd}[in.Packet[0]>>4] == in.EtherType
	}
	return false
}

func (b *bench) inject(in Input) {
	b.t.Helper()
	if in.Hook == bpfgen.LaneIngress {
		b.lane.send(in.Packet)
		return
	}
	protocol := in.EtherType<<8 | in.EtherType>>8
	err := unix.Sendto(b.socket.fd, in.Packet, 0, &unix.SockaddrLinklayer{Ifindex: b.socket.index, Protocol: protocol})
	if !errors.Is(err, unix.ENOBUFS) { // how a drop by the program looks
		require.NoError(b.t, err)
	}
}

// The lane's fixtures on a device without Ethernet header: the same bytes, the
// same counts, and each at the device it was sent to.
func TestFixturesWithoutEthernet(t *testing.T) {
	b := newBench(t, Example())
	counts := b.counts(t)
	ran := 0
	for _, f := range Fixtures() {
		if !b.runs(f.In) {
			continue
		}
		ran++
		b.inject(f.In)
		if device, framed := b.out(f); device.File != nil {
			got := device.nextRaw()
			if framed {
				require.Equal(t, append(writtenHeader[:], 8, 0), got[:14], f.Name())
				got = got[14:]
			}
			require.Equal(t, f.Want.Packet, got, f.Name())
		}
		before, after := counts, b.counts(t)
		counts = maps.Clone(after)
		if f.Want.Counted {
			before[CounterName(f.Want.Link, f.In.Hook, f.Want.Reason)]++
		}
		require.Equal(t, before, after, f.Name())
	}
	require.Greater(t, ran, 500)
	b.requireNothingElse()
}

// A packet cut anywhere in its IP header, which a test run refuses to build.
func TestTruncatedHeader(t *testing.T) {
	b := newBench(t, Example())
	packet := UDP("100.70.0.9", "100.70.0.5", 1, 2, "")
	for length := 1; length < 20; length++ {
		b.inject(Input{Hook: bpfgen.LaneIngress, EtherType: 0x0800, Packet: packet[:length]})
		b.inject(Input{Hook: bpfgen.LaneEgress, EtherType: 0x0800, Packet: packet[:length]})
	}
	require.Equal(t, map[string]uint64{"link 0 lane ingress malformed": 19, "link 0 lane egress malformed": 19}, b.counts(t))
	b.requireNothingElse()
}

// requireNothingElse came out anywhere.
func (b *bench) requireNothingElse() {
	b.t.Helper()
	for _, device := range []tun{b.lane, b.up, b.overlay, b.stack, b.transit} {
		require.NoError(b.t, device.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err := device.Read(make([]byte, 100))
		require.True(b.t, errors.Is(err, os.ErrDeadlineExceeded), "%s: %v", device.Name(), err)
	}
}

// vnetHeader is struct virtio_net_hdr: what a packet socket says of the
// offloads of a packet.
type vnetHeader struct {
	flags, gsoType                               uint8
	headerLength, gsoSize, checksumStart, offset uint16
}

func (v vnetHeader) bytes() []byte {
	out := []byte{v.flags, v.gsoType}
	for _, word := range []uint16{v.headerLength, v.gsoSize, v.checksumStart, v.offset} {
		out = binary.LittleEndian.AppendUint16(out, word)
	}
	return out
}

func (b *bench) sendOffloaded(header vnetHeader, packet []byte) {
	require.NoError(b.t, unix.SetsockoptInt(b.socket.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
	require.NoError(b.t, unix.Sendto(b.socket.fd, append(header.bytes(), packet...), 0,
		&unix.SockaddrLinklayer{Ifindex: b.socket.index, Protocol: 0x0008}))
}

// A TCP aggregate with a partial checksum (only the pseudo header is summed)
// is translated; the kernel cuts it up behind the program, and every segment
// has the right checksum.
func TestAggregate(t *testing.T) {
	b := newBench(t, Example())
	const size, segments = 1300, 30
	payload := make([]byte, size*segments)
	for i := range payload {
		payload[i] = byte(i * 7 / 5)
	}
	packet := loads[0].build("10.244.1.5", "100.72.0.9", 64)[:40]
	packet = append(packet, payload...)
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
	packet[10], packet[11] = 0, 0
	binary.BigEndian.PutUint16(packet[10:], onesComplement(packet[:20]))
	pseudo := append(append([]byte{}, packet[12:20]...), 0, 6)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(20+len(payload)))
	binary.BigEndian.PutUint16(packet[36:], ^onesComplement(pseudo))

	b.sendOffloaded(vnetHeader{flags: 1, gsoType: 1, headerLength: 40, gsoSize: size, checksumStart: 20, offset: 16}, packet)
	var got []byte
	for range segments {
		segment := b.lane.nextRaw()
		require.Equal(t, []byte{100, 90, 1, 5, 100, 72, 0, 9}, segment[12:20])
		require.EqualValues(t, 0xffff, sum(segment[:20]), "IP header")
		pseudo := append(append([]byte{}, segment[12:20]...), 0, 6, byte((len(segment)-20)>>8), byte(len(segment)-20))
		require.EqualValues(t, 0xffff, sum(append(pseudo, segment[20:]...)), "TCP")
		require.EqualValues(t, 63, segment[8])
		got = append(got, segment[40:]...)
	}
	require.Equal(t, payload, got)
	require.Equal(t, map[string]uint64{"link 3 lane egress forwarded": 1}, b.counts(t))
}

// A packet of which only the first bytes are in the linear part of its buffer.
func TestNotLinear(t *testing.T) {
	world := Example()
	world.MTU[Other] = 9000
	b := newBench(t, world)
	payload := string(make([]byte, 5000))
	for _, linear := range []uint16{1, 19, 20, 27, 28, 40} {
		b.sendOffloaded(vnetHeader{headerLength: linear}, udpPacket(ip("10.244.1.5", "100.72.0.9", 64, 17), payload))
		require.Equal(t, udpPacket(ip("100.90.1.5", "100.72.0.9", 63, 17), payload), b.lane.nextRaw())

		inner := func(s, d string) []byte { return udpPacket(ip(s, d, 1, 17), payload) }
		b.sendOffloaded(vnetHeader{headerLength: linear}, icmpError(ip("10.244.1.5", "100.72.0.9", 64, 1), 11, 0, 0, 0, inner("100.72.0.9", "10.244.1.5")))
		require.Equal(t, icmpError(ip("100.90.1.5", "100.72.0.9", 63, 1), 11, 0, 0, 0, inner("100.72.0.9", "100.90.1.5")), b.lane.nextRaw())
	}
}
