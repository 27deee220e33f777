package probe

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

const (
	testPort   = 9812
	testSender = 0xcafe0001
)

var (
	testSource      = netip.MustParseAddr("240.1.0.0")
	testDestination = netip.MustParseAddr("240.2.0.0")
)

// build makes a UDP packet with an independent builder. The checksum is zero.
func build(t *testing.T, ip layers.IPv4, udp layers.UDP, payload []byte) []byte {
	t.Helper()
	ip.Version, ip.Protocol, ip.TTL = 4, layers.IPProtocolUDP, 64
	buffer := gopacket.NewSerializeBuffer()
	require.NoError(t, gopacket.SerializeLayers(buffer,
		gopacket.SerializeOptions{FixLengths: true}, &udp, gopacket.Payload(payload)))
	body := append([]byte(nil), buffer.Bytes()...)
	require.NoError(t, gopacket.SerializeLayers(buffer,
		gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, &ip, gopacket.Payload(body)))
	return append([]byte(nil), buffer.Bytes()...)
}

func payload(kind byte, sequence uint32, clock uint64, sender, fragments uint32, reach [4]uint64) []byte {
	b := []byte{1, kind, 0, 0}
	b = binary.BigEndian.AppendUint32(b, sequence)
	b = binary.BigEndian.AppendUint64(b, clock)
	b = binary.BigEndian.AppendUint32(b, sender)
	b = binary.BigEndian.AppendUint32(b, fragments)
	for _, word := range reach {
		b = binary.NativeEndian.AppendUint64(b, word)
	}
	return b
}

func TestRequestBytes(t *testing.T) {
	want := build(t,
		layers.IPv4{SrcIP: testSource.AsSlice(), DstIP: testDestination.AsSlice(), Flags: layers.IPv4DontFragment},
		layers.UDP{SrcPort: testPort, DstPort: testPort},
		payload(bpfgen.ProbeRequest, 7, 1<<40, testSender, 0, [4]uint64{}))
	got := request{source: testSource, destination: testDestination, port: testPort, sequence: 7, clock: 1 << 40, sender: testSender}.marshal()
	require.Equal(t, want, got)
}

// A padded probe is whole at every length: both headers tell it, and zeros
// follow the probe.
func TestPaddedRequestBytes(t *testing.T) {
	for _, length := range []int{packetLength + 1, 1328, 1440, 8940, maxPacket} {
		probe := payload(bpfgen.ProbeRequest, 7, 99, testSender, 0, [4]uint64{})
		want := build(t,
			layers.IPv4{SrcIP: testSource.AsSlice(), DstIP: testDestination.AsSlice(), Flags: layers.IPv4DontFragment},
			layers.UDP{SrcPort: testPort, DstPort: testPort}, append(probe, make([]byte, length-packetLength)...))
		r := request{source: testSource, destination: testDestination, port: testPort, sequence: 7, clock: 99, sender: testSender, length: length}
		got := r.marshal()
		require.Len(t, got, length)
		require.Equal(t, want, got)
	}
	require.Len(t, request{source: testSource, destination: testDestination, length: packetLength - 1}.marshal(), packetLength)
	require.Len(t, request{source: testSource, destination: testDestination, length: maxPacket + 1}.marshal(), maxPacket)
}

// One probe of a link in a hundred is as large as the path; no other is padded.
func TestWhichProbesArePadded(t *testing.T) {
	lengths := func(m measured) map[int]int {
		m.track = newTrack(pace{}, "b", new(lag), time.Time{})
		counts := map[int]int{}
		for range 1000 {
			length := m.nextLength()
			m.send(time.Time{}, length)
			counts[length]++
		}
		return counts
	}
	require.Equal(t, map[int]int{packetLength: 990, 1440: 10}, lengths(measured{path: &PathTarget{MTU: 1440}}))
	require.Equal(t, map[int]int{packetLength: 990, maxPacket: 10}, lengths(measured{path: &PathTarget{MTU: 1 << 20}}))
	require.Equal(t, map[int]int{packetLength: 1000}, lengths(measured{path: &PathTarget{}}), "the MTU is not known")
	require.Equal(t, map[int]int{packetLength: 1000}, lengths(measured{node: &NodeTarget{}}))
}

func TestAnswerFilterAndParser(t *testing.T) {
	raw, err := answerFilter(testPort, testSender)
	require.NoError(t, err)
	program, all := bpf.Disassemble(raw)
	require.True(t, all)
	machine, err := bpf.NewVM(program)
	require.NoError(t, err)

	ip := layers.IPv4{SrcIP: testDestination.AsSlice(), DstIP: testSource.AsSlice()}
	udp := layers.UDP{SrcPort: testPort, DstPort: testPort}
	good := payload(bpfgen.ProbeAnswer, 7, 99, testSender, 3, [4]uint64{1: 1 << 5})
	withOptions := ip
	withOptions.Options = []layers.IPv4Option{{OptionType: 1}, {OptionType: 1}, {OptionType: 1}, {OptionType: 1}}
	fragment := ip
	fragment.Flags = layers.IPv4MoreFragments
	version2 := append([]byte{2}, good[1:]...)
	for name, c := range map[string]struct {
		packet []byte
		pass   bool
	}{
		"answer":              {build(t, ip, udp, good), true},
		"answer with options": {build(t, withOptions, udp, good), true},
		"request":             {build(t, ip, udp, payload(bpfgen.ProbeRequest, 7, 99, testSender, 3, [4]uint64{})), false},
		"other version":       {build(t, ip, udp, version2), false},
		"fragment":            {build(t, fragment, udp, good), false},
		"other port":          {build(t, ip, layers.UDP{SrcPort: testPort, DstPort: 53}, good), false},
		"TCP":                 {tcp(t), false},
		"too short":           {build(t, ip, udp, good)[:40], false},
		"IPv6":                {append([]byte{0x60}, build(t, ip, udp, good)[1:]...), false},
	} {
		n, err := machine.Run(c.packet)
		require.NoError(t, err, name)
		_, err = parseAnswer(c.packet, testPort)
		require.Equal(t, c.pass, err == nil, name)
		// The filter does not see a length; the parser does.
		require.Equal(t, c.pass, n > 0, name)
	}
	n, err := machine.Run(build(t, ip, udp, payload(bpfgen.ProbeAnswer, 7, 99, testSender+1, 3, [4]uint64{})))
	require.NoError(t, err)
	require.Zero(t, n, "another prober's answer")

	a, err := parseAnswer(build(t, ip, udp, good), testPort)
	require.NoError(t, err)
	require.Equal(t, testDestination, a.source)
	require.Equal(t, testSource, a.destination)
	require.EqualValues(t, 7, a.sequence)
	require.EqualValues(t, 99, a.clock)
	require.EqualValues(t, 3, a.outerFragments)
	require.Equal(t, packetLength, a.length)
	require.Equal(t, [4]uint64{1: 1 << 5}, a.reach.Bits)
}

func tcp(t *testing.T) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	require.NoError(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true},
		&layers.IPv4{Version: 4, Protocol: layers.IPProtocolTCP, SrcIP: net.IP{1, 1, 1, 1}, DstIP: net.IP{2, 2, 2, 2}},
		&layers.TCP{SrcPort: testPort, DstPort: testPort}, gopacket.Payload(payload(bpfgen.ProbeAnswer, 7, 99, testSender, 3, [4]uint64{}))))
	return buffer.Bytes()
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(request{source: testSource, destination: testDestination, port: testPort}.marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer(b, testPort)
		if err == nil && (!a.source.Is4() || len(b) < packetLength) {
			t.Fatalf("accepted %x", b)
		}
	})
}
