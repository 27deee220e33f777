package agentapi

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestMain runs the tests in a network namespace of their own, since channel
// addresses and ports are fixed.
func TestMain(m *testing.M) {
	const inside = "WEFT_TEST_NAMESPACE"
	if os.Getenv(inside) == "" {
		command := exec.Command("/proc/self/exe", os.Args[1:]...)
		command.Env = append(os.Environ(), inside+"=1")
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := command.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "run tests in a network namespace (needs root):", err)
			os.Exit(1)
		}
		return
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	for _, address := range []string{ownChannel.String(), peerChannel.String(), strangerChannel.String()} {
		a, parse := netlink.ParseAddr(address + "/128")
		if err == nil {
			err = parse
		}
		if err == nil {
			err = netlink.AddrAdd(lo, a)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "set the loopback device up:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
