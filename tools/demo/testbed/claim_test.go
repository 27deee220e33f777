package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A second run is refused until the first one lets go, also while a program that
// the first one started is still there. The name is not the real one: a lab may be
// in use while this runs.
func TestClaim(t *testing.T) {
	name := fmt.Sprintf("@weft-lab-run-test-%d", os.Getpid())
	release, err := claim(name)
	require.NoError(t, err)
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	_, err = claim(name)
	require.ErrorIs(t, err, errClaimed)
	release()
	release, err = claim(name)
	require.NoError(t, err)
	release()
}
