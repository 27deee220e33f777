package leftover_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/demo/leftover"
)

func TestCompareCountsEachOneTooMany(t *testing.T) {
	before := leftover.Snapshot{"links": {"lo"}, "processes": {"sh", "sleep 1"}}
	after := leftover.Snapshot{"links": {"lo", "veth0"}, "processes": {"sh", "sh"}, "pins": {"/sys/fs/bpf/weft"}}
	require.Equal(t, []string{"links: veth0", "pins: /sys/fs/bpf/weft", "processes: sh"}, leftover.Compare(before, after))
	require.Empty(t, leftover.Compare(after, after))
}

// A process and a folder that were not there before are found.
func TestTakeFindsAProcessAndAFolder(t *testing.T) {
	require.Zero(t, os.Geteuid(), "run as root: a snapshot lists BPF programs")
	before, err := leftover.Take()
	require.NoError(t, err)
	folder, err := os.MkdirTemp("/tmp", "weft-leftover-")
	require.NoError(t, err)
	defer os.Remove(folder)
	sleeper := exec.Command("sleep", "61.25")
	require.NoError(t, sleeper.Start())
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	}()
	after, err := leftover.Take()
	require.NoError(t, err)
	added := leftover.Compare(before, after)
	require.Contains(t, added, "folders: "+folder)
	require.Contains(t, added, "processes: sleep 61.25")
}
