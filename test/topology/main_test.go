package topology

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// binaries is the folder with weft-agent and weft-wireguard.
var binaries string

// TestMain builds the binaries, and leaves no namespace behind: neither ours
// nor those of an earlier run that was interrupted.
func TestMain(m *testing.M) {
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "topology tests:", err)
		code = 1
	}
	os.Exit(code)
}

func testMain(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("they make network namespaces: run them as root")
	}
	turn, err := waitTurn()
	if err != nil {
		return 1, err
	}
	defer turn.Close()
	if err := sweep(); err != nil {
		return 1, fmt.Errorf("remove leftovers of an earlier run: %w", err)
	}
	defer func() {
		if failed := sweep(); failed != nil && err == nil {
			err = failed
		}
	}()
	if binaries, err = os.MkdirTemp("", prefix); err != nil {
		return 1, err
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binaries, "../../cmd/weft-agent", "../../cmd/weft-wireguard")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build agents: %w: %s", err, output)
	}
	return m.Run(), nil
}

// waitTurn lets one run at a time have the machine's namespaces: what another
// one has looks like a leftover. An abstract socket goes with its process.
func waitTurn() (io.Closer, error) {
	var listener net.Listener
	var err error
	if !await(8*time.Minute, func() bool {
		listener, err = net.Listen("unix", "@"+prefix+"tests")
		return err == nil
	}) {
		return nil, fmt.Errorf("another run of these tests does not end: %w", err)
	}
	return listener, nil
}
