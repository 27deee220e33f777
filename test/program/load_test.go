package program

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Every program passes the verifier, for devices with and without an Ethernet
// header.
func TestLoad(t *testing.T) {
	for name, load := range map[string]func() (*ebpf.CollectionSpec, error){"border": bpfgen.LoadBorder, "overlay": bpfgen.LoadOverlay} {
		for _, offset := range []uint8{0, 14} {
			t.Run(fmt.Sprintf("%s at offset %d", name, offset), func(t *testing.T) {
				spec, err := load()
				require.NoError(t, err)
				require.NoError(t, spec.Variables["weft_l3_offset"].Set(offset))
				for _, m := range spec.Maps {
					m.Pinning = ebpf.PinNone
				}
				collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
				if verifier := (*ebpf.VerifierError)(nil); errors.As(err, &verifier) {
					t.Logf("%-60v", verifier)
				}
				require.NoError(t, err)
				defer collection.Close()
				for _, p := range collection.Programs {
					t.Log(p, p.VerifierLog)
				}
			})
		}
	}
}
