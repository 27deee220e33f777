package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/weft-fabric/weft/tools/lab/pki"
)

const (
	inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"
	// The kubelet, containerd and the control plane hold about 18 a node
	// (counted), agents and pods some more; all nodes share the machine's limit.
	inotifyPerNode = 40
	inotifyBase    = 128
)

// raiseLimits raises the machine's limit of file watchers where the lab needs
// more, and notes the old value for lab down.
func (l *Lab) raiseLimits() error {
	data, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return fmt.Errorf("read the limit of file watchers: %w", err)
	}
	have, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("read the limit of file watchers: %w", err)
	}
	want := inotifyBase
	for _, c := range l.Spec.Clusters {
		want += c.Nodes * inotifyPerNode
	}
	if have >= want {
		return nil
	}
	// A value noted by an earlier start is the machine's own.
	if _, err := os.Stat(l.Folders.Inotify()); errors.Is(err, fs.ErrNotExist) {
		if err := pki.WriteFile(l.Folders.Inotify(), data, 0o644); err != nil {
			return err
		}
	}
	l.say("fs.inotify.max_user_instances raised from %d to %d until lab down", have, want)
	if err := os.WriteFile(inotifyLimit, []byte(strconv.Itoa(want)), 0); err != nil {
		return fmt.Errorf("raise the limit of file watchers: %w", err)
	}
	return nil
}

func (l *Lab) restoreLimits() error {
	data, err := os.ReadFile(l.Folders.Inotify())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(inotifyLimit, data, 0)
	}
	if err != nil {
		return fmt.Errorf("restore the limit of file watchers: %w", err)
	}
	return nil
}

const bridgeSysctls = "/proc/sys/net/bridge"

// needBridgeFilter makes bridged packets pass netfilter: without, a pod that
// calls a service backed by a pod of its own node gets an answer from an
// address that it did not ask.
func (l *Lab) needBridgeFilter() {
	if _, err := os.Stat(bridgeSysctls); err == nil {
		return
	}
	// The module may be missing, or built in under this name.
	_ = exec.Command("modprobe", "br_netfilter").Run()
	if _, err := os.Stat(bridgeSysctls); err != nil {
		l.say("the kernel has no br_netfilter: a pod that calls a service backed by a pod of its own node may get no answer")
	}
}
