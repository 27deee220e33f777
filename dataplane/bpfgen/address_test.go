package bpfgen

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddress4(t *testing.T) {
	address := netip.MustParseAddr("10.244.1.5")
	bytes := make([]byte, 4)
	binary.NativeEndian.PutUint32(bytes, Address4(address))
	require.Equal(t, []byte{10, 244, 1, 5}, bytes)
	require.Equal(t, address, FromAddress4(Address4(address)))
	require.Equal(t, Address4(address), Address4(netip.MustParseAddr("::ffff:10.244.1.5")))
	require.Zero(t, Address4(netip.MustParseAddr("fd79::1")))
	require.Zero(t, Address4(netip.Addr{}))
}

func TestMask4(t *testing.T) {
	for bits, mask := range map[int]string{0: "0.0.0.0", 9: "255.128.0.0", 20: "255.255.240.0", 32: "255.255.255.255"} {
		require.Equal(t, netip.MustParseAddr(mask), FromAddress4(Mask4(bits)))
	}
}

// Delta is what the sum over an address changes by, modulo 65535, for any host
// bits and any prefix length.
func TestDelta(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	residue := func(a netip.Addr) uint32 {
		b := a.As4()
		return (uint32(b[0])<<8 + uint32(b[1]) + uint32(b[2])<<8 + uint32(b[3])) % 0xffff
	}
	within := func(value, host uint32, bits int) (netip.Prefix, netip.Addr) {
		var mask uint32
		if bits > 0 {
			mask = 0xffffffff << (32 - bits)
		}
		var prefix, address [4]byte
		binary.BigEndian.PutUint32(prefix[:], value&mask)
		binary.BigEndian.PutUint32(address[:], value&mask|host&^mask)
		return netip.PrefixFrom(netip.AddrFrom4(prefix), bits), netip.AddrFrom4(address)
	}
	for range 20000 {
		bits, host := source.IntN(33), source.Uint32()
		local, before := within(source.Uint32(), host, bits)
		wire, after := within(source.Uint32(), host, bits)
		delta := Delta(local, wire)
		require.NotEqual(t, uint16(0xffff), delta)
		var bytes [2]byte
		binary.NativeEndian.PutUint16(bytes[:], delta)
		require.Equal(t, residue(after), (residue(before)+uint32(binary.BigEndian.Uint16(bytes[:])))%0xffff, "%s to %s", local, wire)
		require.Zero(t, Delta(local, local))
	}
}

func TestReasons(t *testing.T) {
	names := map[string]bool{}
	for _, reason := range Reasons() {
		require.NotEmpty(t, reason.Help())
		require.False(t, names[reason.String()], "%s is there twice", reason)
		names[reason.String()] = true
	}
	require.LessOrEqual(t, len(names), MaxReasons)
	require.Equal(t, KindForward, ReasonForwarded.Kind())
	require.Equal(t, KindDrop, Reason(MaxReasons-1).Kind(), "an unknown reason is a drop")
	require.Equal(t, "reason_63", Reason(63).String())
}
