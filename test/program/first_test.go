package program

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

func newRunner(t *testing.T) *Runner {
	r, err := NewRunner(Example())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	probe := Probe{Type: bpfgen.ProbeRequest}
	require.NoError(t, r.LearnMarks(
		Input{Hook: bpfgen.LaneIngress, EtherType: 0x800, Packet: UDP("240.0.16.0", "100.127.0.0", 5555, 9812, probe.String())},
		Input{Hook: bpfgen.OverlayEgress, EtherType: 0x800, Packet: UDP("10.244.0.5", "100.70.0.9", 1, 2, "")}))
	return r
}

func TestFirst(t *testing.T) {
	r := newRunner(t)
	for _, in := range []Input{
		{Hook: bpfgen.LaneEgress, EtherType: 0x800, Packet: UDP("10.244.0.5", "100.70.0.9", 1, 2, "x")},
		{Hook: bpfgen.OverlayIngress, EtherType: 0x800, Packet: UDP("10.244.1.5", "100.70.0.9", 1, 2, "x"), Sender: PlainUnderlay, VNI: 0x7e57},
	} {
		got, _, err := r.Run(in)
		require.NoError(t, err)
		want := Example().Model(in)
		require.Equal(t, want.Packet, got.Packet)
		require.Equal(t, want.Verdict, got.Verdict)
		t.Log(want, got, r.counts(t))
	}
}
