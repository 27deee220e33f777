package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// prefix of every namespace and temporary folder that these tests make.
// Whatever carries it at the start is a leftover of an interrupted run.
const prefix = "weft-topo-"

// run a command to its end, bounded in time.
func run(name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, bytes.TrimSpace(output))
	}
	return string(output), nil
}

func mustRun(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	output, err := run(name, arguments...)
	require.NoError(t, err)
	return output
}

// ip runs "ip" with the words of one line.
func ip(t *testing.T, line string) string {
	t.Helper()
	return mustRun(t, "ip", strings.Fields(line)...)
}

// namespace is a named network namespace.
type namespace struct {
	name string
}

func newNamespace(t *testing.T, name string) namespace {
	t.Helper()
	n := namespace{prefix + name}
	ip(t, "netns add "+n.name)
	ip(t, "-n "+n.name+" link set lo up")
	return n
}

// ip runs "ip" inside.
func (n namespace) ip(t *testing.T, line string) string {
	t.Helper()
	return ip(t, "-n "+n.name+" "+line)
}

// nft runs a script inside.
func (n namespace) nft(t *testing.T, script string) {
	t.Helper()
	command := exec.Command("ip", "netns", "exec", n.name, "nft", "-f", "-")
	command.Stdin = strings.NewReader(script)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "nft in %s: %s", n.name, output)
}

// sysctl sets a value inside; the name has slashes.
func (n namespace) sysctl(t *testing.T, name, value string) {
	t.Helper()
	require.NoError(t, n.do(func() error {
		return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644)
	}), "set %s in %s", name, n.name)
}

// do runs f with the thread inside the namespace. Sockets that f makes belong
// to the namespace for good.
func (n namespace) do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		result <- n.enter(f)
	}()
	return <-result
}

func (n namespace) enter(f func() error) error {
	file, err := os.Open("/run/netns/" + n.name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n.name, err)
	}
	return f()
}

// sweep removes every namespace with our prefix and the processes inside, and
// every temporary folder.
func sweep() error {
	if err := sweepNamespaces(); err != nil {
		return err
	}
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, folder := range folders {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

func sweepNamespaces() error {
	names, err := filepath.Glob("/run/netns/" + prefix + "*")
	if err != nil {
		return err
	}
	var pids []int
	for _, path := range names {
		output, err := run("ip", "netns", "pids", filepath.Base(path))
		if err != nil {
			continue // half-made: it has no process
		}
		for _, field := range strings.Fields(output) {
			if pid, err := strconv.Atoi(field); err == nil && pid != os.Getpid() {
				pids = append(pids, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	await(5*time.Second, func() bool { return !anyAlive(pids) })
	for _, path := range names {
		if _, err := run("ip", "netns", "delete", filepath.Base(path)); err != nil {
			return err
		}
	}
	return nil
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}

// await polls until the condition holds, for a bounded time.
func await(limit time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if condition() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
