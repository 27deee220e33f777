package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/weft-fabric/weft/tools/demo/testbed"
)

// One run at a time, since the tests take the lab over. Where another has it,
// nothing is touched.
func TestMain(m *testing.M) {
	release, err := testbed.Claim()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	release()
	os.Exit(code)
}
