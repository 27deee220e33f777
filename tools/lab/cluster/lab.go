// Package cluster starts, changes and removes the lab: it is the thin shell
// around the plan (layout, render) and the kernel (machine).
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
	"github.com/weft-fabric/weft/tools/lab/pki"
	"github.com/weft-fabric/weft/tools/lab/supervise"
)

// DefaultFolder holds the lab's state unless $WEFT_LAB_DIR says otherwise.
const DefaultFolder = "/var/tmp/weft-lab"

// Lab is the lab of one state folder.
type Lab struct {
	Folders layout.Folders
	Spec    layout.Spec
	out     io.Writer // progress, for people
	begin   time.Time
}

// ErrNoLab means that no lab was started in the state folder.
var ErrNoLab = errors.New("there is no lab; start one with: lab up")

// At returns the lab of $WEFT_LAB_DIR without reading its state.
func At(out io.Writer) (*Lab, error) {
	root := os.Getenv("WEFT_LAB_DIR")
	if root == "" {
		root = DefaultFolder
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("resolve the state folder: %w", err)
	}
	for _, hidden := range []string{"/run", "/var/run", "/var/lib", "/var/log", "/etc", "/sys", "/proc"} {
		if root == hidden || strings.HasPrefix(root, hidden+"/") {
			return nil, fmt.Errorf("state folder %s is not visible inside the lab's nodes; set WEFT_LAB_DIR to a folder outside %s", root, hidden)
		}
	}
	if len(root) > 60 {
		return nil, fmt.Errorf("state folder %s is too long for Unix sockets below it; set WEFT_LAB_DIR to at most 60 characters", root)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab makes namespaces and mounts; run it as root")
	}
	return &Lab{Folders: layout.Folders{Root: root}, out: out, begin: time.Now()}, nil
}

// Open returns the lab of $WEFT_LAB_DIR with its state.
func Open(out io.Writer) (*Lab, error) {
	l, err := At(out)
	if err != nil {
		return nil, err
	}
	return l, l.load()
}

func (l *Lab) load() error {
	data, err := os.ReadFile(l.Folders.State())
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoLab
	}
	if err != nil {
		return fmt.Errorf("read the lab's state: %w", err)
	}
	if err := json.Unmarshal(data, &l.Spec); err != nil {
		return fmt.Errorf("read the lab's state in %s (run lab down to begin anew): %w", l.Folders.State(), err)
	}
	return nil
}

func (l *Lab) save() error {
	data, err := json.MarshalIndent(l.Spec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the lab's state: %w", err)
	}
	return pki.WriteFile(l.Folders.State(), append(data, '\n'), 0o644)
}

// otherLab returns the folder of a lab that runs with another state folder.
// Names of namespaces and cgroups are the same for all, so there is one at a time.
func (l *Lab) otherLab() string {
	return machine.OtherLab(l.Folders.Root, func(folder string) bool {
		_, err := os.Stat(layout.Folders{Root: folder}.State())
		return err == nil
	})
}

// lock keeps two commands from changing the lab at once. The lock file lies
// beside the state folder, which lab down removes, and is removed in the end;
// so the one that was locked must still be the one that has the name.
func (l *Lab) lock() (func(), error) {
	for waiting := false; ; waiting = true {
		file, err := os.OpenFile(l.Folders.Lock(), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock the lab: %w", err)
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			if !waiting {
				l.say("waiting for another lab command to end")
			}
			err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("lock the lab: %w", err)
		}
		if sameFile(file, l.Folders.Lock()) {
			return func() {
				_ = os.Remove(l.Folders.Lock())
				_ = file.Close()
			}, nil
		}
		_ = file.Close()
	}
}

func sameFile(open *os.File, path string) bool {
	a, errA := open.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func (l *Lab) say(format string, args ...any) {
	fmt.Fprintf(l.out, "%6.1fs  %s\n", time.Since(l.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (l *Lab) core() supervise.Client { return supervise.Client{Socket: l.Folders.CoreSocket()} }

func (l *Lab) node(name string) supervise.Client {
	return supervise.Client{Socket: l.Folders.NodeSocket(name)}
}

// waitFor calls check every interval until it returns nil or the time is over.
func waitFor(ctx context.Context, timeout, interval time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("not within %s: %w", timeout, err)
		case <-time.After(interval):
		}
	}
}
