package program

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

func newRunner(t *testing.T, w *World) *Runner {
	r, err := NewRunner(w)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// newExample has learned the marks from the hooks that set them.
func newExample(t *testing.T) *Runner {
	r := newRunner(t, Example())
	probe := Probe{Type: bpfgen.ProbeRequest}
	require.NoError(t, r.LearnMarks(
		Input{Hook: bpfgen.LaneIngress, EtherType: 0x0800, Packet: UDP("240.0.16.0", "100.127.0.0", 5555, 9812, probe.String())},
		Input{Hook: bpfgen.OverlayEgress, EtherType: 0x0800, Packet: UDP("10.244.0.5", "100.70.0.9", 1, 2, "")}))
	return r
}

// Every fixture has its verdict, its bytes and exactly one count, or none if
// it is a probe; the model agrees.
func TestFixtures(t *testing.T) {
	r := newExample(t)
	world := Example()
	counts := r.counts(t)
	for _, f := range Fixtures() {
		t.Run(f.Name(), func(t *testing.T) {
			got, _, err := r.Run(f.In)
			require.NoError(t, err)
			before, after := maps.Clone(counts), r.counts(t)
			counts = after
			require.Equal(t, f.Want.Verdict, got.Verdict)
			require.Equal(t, f.Want.Packet, got.Packet)
			require.Equal(t, f.Want.Framed, got.Framed, "new Ethernet header")
			if f.Want.Counted {
				before[CounterName(f.Want.Link, f.In.Hook, f.Want.Reason)]++
			}
			require.Equal(t, before, after)

			model := world.Model(f.In)
			if !f.Want.Counted { // link and reason mean nothing then
				model.Link, model.Reason = f.Want.Link, f.Want.Reason
			}
			require.Equal(t, f.Want, model, "model")
		})
	}
}
