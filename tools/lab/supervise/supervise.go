// Package supervise keeps a set of processes running: the daemons of one node
// (where it is process 1 of the node's namespace) or of the lab itself. It is
// driven over HTTP on a Unix socket. When it dies, its processes die with it.
package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"sort"
	"sync"
	"syscall"
	"time"
)

// Daemon is a process to be kept running.
type Daemon struct {
	Name string   `json:"name"`
	Args []string `json:"args"` // the program's absolute path first
	Env  []string `json:"env"`  // in addition to the supervisor's own
}

// Status says how a daemon is.
type Status struct {
	Name     string    `json:"name"`
	PID      int       `json:"pid"`     // in the supervisor's PID namespace, 0: not running
	Stopped  bool      `json:"stopped"` // on request
	Starts   int       `json:"starts"`
	LastExit string    `json:"lastExit"`
	Since    time.Time `json:"since"`
	Log      string    `json:"log"`
}

// Bounds on restarts and on logs (per daemon: one current and one old file).
const (
	restartDelay = time.Second
	killAfter    = 3 * time.Second
	logBytes     = 16 << 20
	maxDaemons   = 256
)

// Supervisor owns all child processes of its process.
type Supervisor struct {
	logs    string
	log     *slog.Logger
	starter chan func()

	mu      sync.Mutex
	daemons map[string]*daemon
	exits   map[int]chan<- syscall.WaitStatus
}

type daemon struct {
	spec   Daemon
	cancel context.CancelFunc
	done   chan struct{}
	status Status
}

// New returns a supervisor that writes its daemons' output to files in the folder logs.
func New(logs string, log *slog.Logger) *Supervisor {
	s := &Supervisor{
		logs: logs, log: log, starter: make(chan func()),
		daemons: map[string]*daemon{}, exits: map[int]chan<- syscall.WaitStatus{},
	}
	go s.startLoop()
	go s.reapLoop()
	return s
}

// Put makes the daemon run as specified. An unchanged one is left alone.
func (s *Supervisor) Put(spec Daemon) error {
	s.mu.Lock()
	old, exists := s.daemons[spec.Name]
	full := len(s.daemons) >= maxDaemons
	s.mu.Unlock()
	switch {
	case exists && reflect.DeepEqual(old.spec, spec) && !old.isStopped(s):
		return nil
	case !exists && full:
		return fmt.Errorf("start %s: already %d daemons", spec.Name, maxDaemons)
	case len(spec.Args) == 0:
		return fmt.Errorf("start %s: no program given", spec.Name)
	}
	if exists {
		s.stop(old)
	}
	s.launch(spec)
	return nil
}

func (d *daemon) isStopped(s *Supervisor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.status.Stopped
}

func (s *Supervisor) launch(spec Daemon) {
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{spec: spec, cancel: cancel, done: make(chan struct{})}
	d.status = Status{Name: spec.Name, Log: filepath.Join(s.logs, spec.Name+".log")}
	s.mu.Lock()
	s.daemons[spec.Name] = d
	s.mu.Unlock()
	go s.keep(ctx, d)
}

// stop ends the daemon's process: a request to end, after a while by force.
func (s *Supervisor) stop(d *daemon) {
	d.cancel()
	<-d.done
}

// Stop ends the daemon until Start.
func (s *Supervisor) Stop(name string) error {
	d, err := s.find(name)
	if err != nil {
		return err
	}
	s.stop(d)
	s.mu.Lock()
	d.status.Stopped = true
	s.mu.Unlock()
	return nil
}

// Start undoes Stop.
func (s *Supervisor) Start(name string) error {
	d, err := s.find(name)
	if err != nil {
		return err
	}
	return s.Put(d.spec)
}

// Delete ends the daemon and forgets it. An unknown name is no error.
func (s *Supervisor) Delete(name string) {
	if d, err := s.find(name); err == nil {
		s.stop(d)
		s.mu.Lock()
		delete(s.daemons, name)
		s.mu.Unlock()
	}
}

func (s *Supervisor) find(name string) (*daemon, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.daemons[name]
	if !ok {
		return nil, fmt.Errorf("there is no daemon %q", name)
	}
	return d, nil
}

// List returns the daemons by name.
func (s *Supervisor) List() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.daemons))
	for _, d := range s.daemons {
		list = append(list, d.status)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// keep runs the daemon again and again until the context ends.
func (s *Supervisor) keep(ctx context.Context, d *daemon) {
	defer close(d.done)
	out, err := openLog(d.status.Log, logBytes)
	if err != nil {
		s.log.Error("open log", "daemon", d.spec.Name, "err", err)
		return
	}
	defer out.Close()
	for ctx.Err() == nil {
		exit, err := s.runOnce(ctx, d, out)
		s.mu.Lock()
		d.status.PID, d.status.Since = 0, time.Now()
		d.status.LastExit = describe(exit, err)
		s.mu.Unlock()
		if ctx.Err() == nil {
			fmt.Fprintf(out, "supervisor: %s ended: %s\n", d.spec.Name, d.status.LastExit)
			s.log.Warn("daemon ended", "daemon", d.spec.Name, "exit", d.status.LastExit)
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

func describe(exit syscall.WaitStatus, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case exit.Signaled():
		return "signal: " + exit.Signal().String()
	default:
		return fmt.Sprintf("exit status %d", exit.ExitStatus())
	}
}

func (s *Supervisor) runOnce(ctx context.Context, d *daemon, out *rotatingLog) (syscall.WaitStatus, error) {
	pid, exited, copied, err := s.start(d.spec, out)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	d.status.PID, d.status.Since = pid, time.Now()
	d.status.Starts++
	s.mu.Unlock()
	var exit syscall.WaitStatus
	select {
	case exit = <-exited:
	case <-ctx.Done():
		exit = terminate(pid, exited)
	}
	// A grandchild may hold the pipe open (a containerd shim does): do not wait for ever.
	select {
	case <-copied:
	case <-time.After(100 * time.Millisecond):
	}
	return exit, nil
}

func terminate(pid int, exited <-chan syscall.WaitStatus) syscall.WaitStatus {
	_ = syscall.Kill(pid, syscall.SIGTERM)
	select {
	case exit := <-exited:
		return exit
	case <-time.After(killAfter):
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return <-exited
	}
}

// start forks on the starter's thread, which lives as long as this process:
// Pdeathsig fires when the *thread* that forked ends.
func (s *Supervisor) start(spec Daemon, out *rotatingLog) (int, <-chan syscall.WaitStatus, <-chan struct{}, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, nil, fmt.Errorf("make the log pipe of %s: %w", spec.Name, err)
	}
	exited := make(chan syscall.WaitStatus, 1)
	var pid int
	done := make(chan struct{})
	s.starter <- func() {
		defer close(done)
		// Holding the lock over fork and registration: a process that ends
		// at once is not reaped before it is known.
		s.mu.Lock()
		defer s.mu.Unlock()
		var p *os.Process
		p, err = os.StartProcess(spec.Args[0], spec.Args, &os.ProcAttr{
			Dir: "/", Env: append(os.Environ(), spec.Env...), Files: []*os.File{nil, w, w},
			Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
		})
		if err == nil {
			pid = p.Pid
			s.exits[pid] = exited
			_ = p.Release()
		}
	}
	<-done
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return 0, nil, nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		defer r.Close()
		out.readFrom(r)
	}()
	return pid, exited, copied, nil
}

// reapLoop waits for every child, including orphans that this process inherits as process 1.
func (s *Supervisor) reapLoop() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	for range signals {
		for {
			var exit syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &exit, syscall.WNOHANG, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			s.mu.Lock()
			exited := s.exits[pid]
			delete(s.exits, pid)
			s.mu.Unlock()
			if exited != nil {
				exited <- exit
			}
		}
	}
}
