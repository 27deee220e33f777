// Package isolate runs a test binary in network, mount and process namespaces of
// its own, with an empty /run and a bpffs of its own on /sys/fs/bpf, so that
// tests can change what they like and leave nothing behind: all of it, helpers
// included, ends with the process.
package isolate

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

const (
	insideVariable = "WEFT_TEST_ISOLATED"
	helperVariable = "WEFT_TEST_HELPER"
)

// Main is for TestMain. Helpers are further programs in the same binary, see
// Helper; each runs until it is killed.
func Main(m *testing.M, helpers map[string]func() error) {
	if name := os.Getenv(helperVariable); name != "" {
		exit(helpers[name]())
	}
	if os.Getenv(insideVariable) == "" {
		exit(runInside())
	}
	if err := prepare(); err != nil {
		exit(fmt.Errorf("prepare namespaces: %w", err))
	}
	os.Exit(m.Run())
}

// Helper returns a command that runs one of Main's helpers in a process of its
// own, in the named network namespace or, without a name, in this one. It dies
// with the test binary, which is the first process of its namespace. (A signal at
// the parent's death would come too early: the kernel sends it when the thread
// ends that started the process.)
func Helper(name, namespace string) *exec.Cmd {
	binary, err := os.Executable()
	if err != nil {
		panic(err) // Linux always knows
	}
	command := exec.Command(binary)
	if namespace != "" {
		command = exec.Command("nsenter", "--net=/run/netns/"+namespace, binary)
	}
	command.Env = append(os.Environ(), helperVariable+"="+name)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return command
}

func exit(err error) {
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runInside() error {
	if os.Geteuid() != 0 {
		return errors.New("these tests make network namespaces: run them as root")
	}
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), insideVariable+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	return command.Run()
}

func prepare() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// What tests write to. /sys stays the host's: its devices are not the test's.
	for _, mount := range [][2]string{{"proc", "/proc"}, {"tmpfs", "/run"}, {"bpf", "/sys/fs/bpf"}} {
		if err := syscall.Mount(mount[0], mount[1], mount[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", mount[0], mount[1], err)
		}
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(loopback)
}
