// Package machine does what the lab needs of the kernel: network namespaces,
// links, routes, mounts, cgroups and processes. The root namespace's network
// is never touched.
package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const namespaceFolder = "/run/netns"

// InNamespace runs f on a thread inside the named network namespace. Processes
// that f starts and sockets that f opens belong to that namespace. The thread
// is thrown away afterwards.
func InNamespace(name string, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		result <- func() error {
			handle, err := netns.GetFromName(name)
			if err != nil {
				return fmt.Errorf("open network namespace %s: %w", name, err)
			}
			defer handle.Close()
			if err := netns.Set(handle); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", name, err)
			}
			return f()
		}()
	}()
	return <-result
}

// EnsureNamespace makes the named network namespace, if it is missing.
func EnsureNamespace(name string) error {
	if healthyNamespace(name) {
		return nil
	}
	if err := shareFolder(); err != nil {
		return err
	}
	path := filepath.Join(namespaceFolder, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	_ = file.Close()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread stays in the new namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
		result <- err
	}()
	if err := <-result; err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	return nil
}

// shareFolder makes the folder of names a shared mount, as ip-netns(8) does on
// its first use. Were it done later, by somebody else, it would hide our names
// below the new mount, where they can no longer be removed.
func shareFolder() error {
	if err := os.MkdirAll(namespaceFolder, 0o755); err != nil {
		return fmt.Errorf("make folder of network namespaces: %w", err)
	}
	err := unix.Mount("", namespaceFolder, "", unix.MS_SHARED|unix.MS_REC, "")
	if err == nil {
		return nil
	}
	if err := unix.Mount(namespaceFolder, namespaceFolder, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount folder of network namespaces: %w", err)
	}
	if err := unix.Mount("", namespaceFolder, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share folder of network namespaces: %w", err)
	}
	return nil
}

func healthyNamespace(name string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(filepath.Join(namespaceFolder, name), &stat) == nil && stat.Type == unix.NSFS_MAGIC
}

// DeleteNamespaces removes the names with that prefix, and their folder if
// nobody uses it any more; a namespace ends with its last process.
func DeleteNamespaces(prefix string) error {
	for _, name := range Namespaces(prefix) {
		path := filepath.Join(namespaceFolder, name)
		for unix.Unmount(path, unix.MNT_DETACH) == nil {
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove network namespace %s: %w", name, err)
		}
	}
	if len(Namespaces("")) == len(Namespaces(prefix)) {
		// Names of ours that are left are mounted once more below the folder's mount.
		again := len(Namespaces(prefix)) > 0
		if err := unix.Unmount(namespaceFolder, 0); err == nil && again {
			return DeleteNamespaces(prefix)
		}
		_ = os.Remove(namespaceFolder)
	}
	if left := Namespaces(prefix); len(left) > 0 {
		return fmt.Errorf("network namespaces %v are hidden below another mount of %s; run lab down again when no other namespaces are in use", left, namespaceFolder)
	}
	return nil
}

// Namespaces lists the named network namespaces with that prefix.
func Namespaces(prefix string) []string {
	entries, err := os.ReadDir(namespaceFolder)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// SetSysctl writes a value of the network namespace that the calling thread is in.
func SetSysctl(name, value string) error {
	path := filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s=%s: %w", name, value, err)
	}
	return nil
}
