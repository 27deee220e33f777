package topology

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// logsVariable names a folder for the whole logs of all processes, to look into
// a failure.
const logsVariable = "WEFT_TOPOLOGY_LOGS"

// process runs in a node's network and mount namespaces.
type process struct {
	name    string
	command *exec.Cmd
	log     *logBuffer
	exited  chan struct{}
}

// logBuffer keeps what a process writes.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// tail of the log, for failures.
func (l *logBuffer) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// mounts gives a node what it would have of its own on a machine: run files,
// state, pins.
const mounts = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mount -t bpf bpf /sys/fs/bpf
echo ready
exec sleep infinity`

// start a command in the node's namespaces. It ends with this test at the
// latest.
func (n *node) start(t *testing.T, name string, arguments ...string) *process {
	t.Helper()
	inside := []string{fmt.Sprintf("--net=/proc/%d/ns/net", n.holder), fmt.Sprintf("--mount=/proc/%d/ns/mnt", n.holder), "--wd=/", "--", name}
	return startProcess(t, n.name+" "+filepath.Base(name), exec.Command("nsenter", append(inside, arguments...)...))
}

func startProcess(t *testing.T, name string, command *exec.Cmd) *process {
	t.Helper()
	p := &process{name: name, command: command, log: &logBuffer{}, exited: make(chan struct{})}
	var output io.Writer = p.log
	if dir := os.Getenv(logsVariable); dir != "" {
		file, err := os.Create(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+time.Now().Format("-150405.000")+".log"))
		require.NoError(t, err)
		t.Cleanup(func() { file.Close() })
		output = io.MultiWriter(p.log, file)
	}
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, launch(command), name)
	go func() {
		_ = command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", p.name, p.log.tail(40))
		}
	})
	return p
}

// launches are commands to start.
var launches = func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked
		for start := range starts {
			start()
		}
	}()
	return starts
}()

// launch starts a command from a thread that stays: Pdeathsig is about the
// thread, and the threads that entered a namespace end.
func launch(command *exec.Cmd) error {
	result := make(chan error)
	launches <- func() { result <- command.Start() }
	return <-result
}

// kill -9 and wait for the end.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.exited
}

// stop with SIGTERM and wait for the end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.command.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not end on SIGTERM", p.name)
	}
}

// hold makes the node's mount namespace and a process that keeps it.
func (n *node) hold(t *testing.T) {
	t.Helper()
	command := exec.Command("nsenter", "--net=/run/netns/"+n.namespace.name, "--",
		"unshare", "--mount", "--propagation", "private", "--", "sh", "-c", mounts)
	p := startProcess(t, n.name+" holder", command)
	ready := func() bool { return strings.Contains(p.log.String(), "ready\n") }
	require.True(t, await(10*time.Second, ready), "mount namespace of %s: %s", n.name, p.log)
	n.holder = command.Process.Pid
}

// file of the node as seen from here.
func (n *node) file(path string) string { return fmt.Sprintf("/proc/%d/root%s", n.holder, path) }

// files lists what is below a folder of the node, without the folder itself.
func (n *node) files(t *testing.T, folder string) []string {
	t.Helper()
	var found []string
	root := n.file(folder)
	err := filepath.Walk(root, func(path string, _ os.FileInfo, err error) error {
		if err == nil && path != root {
			found = append(found, strings.TrimPrefix(path, root))
		}
		return nil
	})
	require.NoError(t, err)
	return found
}
