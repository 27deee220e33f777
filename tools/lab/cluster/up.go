package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/tools/lab/binaries"
	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
)

// packages that hold the programs that a lab runs (Debian's names).
var packages = [][2]string{
	{"etcd", "etcd-server"}, {"containerd", "containerd"}, {"ctr", "containerd"}, {"runc", "runc"}, {"nft", "nftables"},
	{"iptables", "iptables"}, {"conntrack", "conntrack"}, {"/usr/lib/cni/bridge", "containernetworking-plugins"},
}

// Up starts the lab, or what is missing of it. asked is nil when the user gave
// no wishes: then a lab that exists is kept as it is.
func (l *Lab) Up(ctx context.Context, wishes layout.Options, asked bool) error {
	for _, p := range packages {
		if _, err := exec.LookPath(p[0]); err != nil {
			return fmt.Errorf("%s is missing; install the Debian package %s (make setup does)", p[0], p[1])
		}
	}
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if other := l.otherLab(); other != "" {
		return fmt.Errorf("another lab runs with its state in %s; end it with: WEFT_LAB_DIR=%s lab down", other, other)
	}
	if err := l.decide(wishes, asked); err != nil {
		return err
	}
	set, err := binaries.Ensure(ctx, l.say)
	if err != nil {
		return err
	}
	if err := l.prepare(set.Kube); err != nil {
		return err
	}
	if err := l.raiseLimits(); err != nil {
		return err
	}
	l.needBridgeFilter()
	if err := l.startCore(ctx); err != nil {
		return err
	}
	for _, c := range l.Spec.Clusters {
		if err := l.network(c); err != nil {
			return err
		}
	}
	for name := range l.Spec.Links {
		if err := l.applyLink(ctx, name); err != nil {
			return err
		}
	}
	l.say("networks ready: %d clusters of %d nodes", len(l.Spec.Clusters), l.Spec.Clusters[0].Nodes)
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range l.Spec.Clusters {
		group.Go(func() error {
			if err := l.startCluster(ctx, c, set); err != nil {
				return fmt.Errorf("cluster %s: %w", c.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted; lab up goes on from here, lab down removes what there is")
		}
		return err
	}
	l.say("ready; try: lab status, lab kubectl %s get pods -A", l.Spec.Clusters[0].Name)
	return nil
}

// decide settles what the lab should be and remembers it.
func (l *Lab) decide(wishes layout.Options, asked bool) error {
	wanted, err := layout.NewSpec(wishes)
	if err != nil {
		return err
	}
	switch err := l.load(); {
	case errors.Is(err, ErrNoLab):
		l.Spec = wanted
	case err != nil:
		return err
	case asked && (!reflect.DeepEqual(l.Spec.Clusters, wanted.Clusters) || l.Spec.ProxyMode != wanted.ProxyMode):
		return fmt.Errorf("a lab with other clusters exists in %s; run lab down first", l.Folders.Root)
	}
	if err := os.MkdirAll(l.Folders.CoreLogs(), 0o755); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	return l.save()
}

// prepare copies this program into the state folder, so that the lab's
// processes do not depend on a file that a build may replace, and notes where
// Kubernetes is.
func (l *Lab) prepare(kube string) error {
	if have, err := os.Readlink(l.Folders.Kube()); err != nil || have != kube {
		_ = os.Remove(l.Folders.Kube())
		if err := os.Symlink(kube, l.Folders.Kube()); err != nil {
			return fmt.Errorf("note the path of Kubernetes: %w", err)
		}
	}
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer source.Close()
	temporary := l.Folders.Program() + ".new"
	target, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close()
		return fmt.Errorf("copy this program: %w", err)
	}
	if err := target.Close(); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	return os.Rename(temporary, l.Folders.Program())
}

// startCore starts the supervisor of forwarders and emulated links, if it does not live.
func (l *Lab) startCore(ctx context.Context) error {
	if _, err := l.core().List(ctx); err == nil {
		return nil
	}
	if err := l.spawn("", "supervise", "--socket="+l.Folders.CoreSocket(), "--logs="+l.Folders.CoreLogs()); err != nil {
		return err
	}
	return l.waitSupervisor(ctx, l.Folders.CoreSocket(), l.Folders.CoreLogs())
}

func (l *Lab) waitSupervisor(ctx context.Context, socket, logs string) error {
	err := waitFor(ctx, 20*time.Second, 20*time.Millisecond, func(ctx context.Context) error {
		_, err := clientAt(socket).List(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("start supervisor: %w; its log is %s/supervisor.log", err, logs)
	}
	return nil
}

// spawn starts this program in the background, in a network namespace if named.
// It is marked, so that lab down finds it.
func (l *Lab) spawn(namespace string, args ...string) error {
	start := func() error {
		command := exec.Command(l.Folders.Program(), args...)
		command.Env = append(os.Environ(), machine.Mark(l.Folders.Root))
		command.Dir = "/"
		errors, err := os.OpenFile(l.Folders.CoreLogs()+"/spawn.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("open log: %w", err)
		}
		defer errors.Close()
		command.Stdout, command.Stderr = errors, errors
		command.SysProcAttr = newSession()
		if err := command.Start(); err != nil {
			return fmt.Errorf("start %v: %w", args, err)
		}
		return command.Process.Release()
	}
	if namespace == "" {
		return start()
	}
	return machine.InNamespace(namespace, start)
}
