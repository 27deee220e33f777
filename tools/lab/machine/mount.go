package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// NodeMounts turns the mount namespace of the calling process, which must be
// its own, into that of a node: own /proc, /sys (this network namespace's),
// cgroups (this cgroup namespace's), bpffs, /etc (changes are the node's),
// /var/lib, /var/log and /run. Everything is shared within the node, so that
// mounts of pods propagate as on a real host.
func NodeMounts(nodeFolder string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// A copy of somebody else's mount would keep their network namespace or file system alive.
	if err := detachBelow("/sys", "/run", "/var/lib", "/var/log", "/etc"); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	if err := mountCgroups(hierarchies); err != nil {
		return err
	}
	if err := mount("bpffs", "/sys/fs/bpf", "bpf", 0, "mode=0700"); err != nil {
		return err
	}
	for _, dir := range []string{"/var/lib", "/var/log"} {
		own := filepath.Join(nodeFolder, strings.ReplaceAll(dir[1:], "/", "-"))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return fmt.Errorf("make folder for %s: %w", dir, err)
		}
		if err := mount(own, dir, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := overlayEtc(nodeFolder); err != nil {
		return err
	}
	if err := mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=256m"); err != nil {
		return err
	}
	for _, dir := range []string{"/run/lock", "/run/netns"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	return nil
}

// detachBelow detaches every mount at or below the paths, newest first.
func detachBelow(paths ...string) error {
	mounts, err := Mounts()
	if err != nil {
		return err
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		for _, path := range paths {
			if mounts[i].Path != path && !strings.HasPrefix(mounts[i].Path, path+"/") {
				continue
			}
			if err := unix.Unmount(mounts[i].Path, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
				return fmt.Errorf("detach %s: %w", mounts[i].Path, err)
			}
		}
	}
	return nil
}

func mountCgroups(hierarchies []Hierarchy) error {
	if len(hierarchies) == 1 && hierarchies[0].Path == "/sys/fs/cgroup" {
		if err := mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
			return err
		}
		return leaveRoot()
	}
	if err := mount("tmpfs", "/sys/fs/cgroup", "tmpfs", 0, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := os.MkdirAll(h.Path, 0o755); err != nil {
			return fmt.Errorf("make mount point %s: %w", h.Path, err)
		}
		if err := mount("cgroup", h.Path, h.Type, 0, h.Options); err != nil {
			return err
		}
	}
	return nil
}

// leaveRoot moves this process out of the root of its cgroup namespace: a
// cgroup of version 2 that holds processes cannot hand controllers to children.
func leaveRoot() error {
	if err := os.MkdirAll("/sys/fs/cgroup/init", 0o755); err != nil {
		return fmt.Errorf("make cgroup init: %w", err)
	}
	if err := os.WriteFile("/sys/fs/cgroup/init/cgroup.procs", []byte("0"), 0); err != nil {
		return fmt.Errorf("enter cgroup init: %w", err)
	}
	return nil
}

func overlayEtc(nodeFolder string) error {
	upper, work := filepath.Join(nodeFolder, "etc"), filepath.Join(nodeFolder, "etc-work")
	for _, dir := range []string{upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder for /etc: %w", err)
		}
	}
	return mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work)
}
