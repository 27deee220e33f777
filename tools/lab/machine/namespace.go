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

// EnsureNamespace makes the named network namespace with forwarding on, if it is missing.
func EnsureNamespace(name string) error {
	if healthyNamespace(name) {
		return nil
	}
	// A bare file left by an interrupted creation would stand in the way.
	if err := DeleteNamespace(name); err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		handle, err := netns.NewNamed(name)
		if err != nil {
			result <- fmt.Errorf("make network namespace %s: %w", name, err)
			return
		}
		_ = handle.Close()
		result <- nil
	}()
	return <-result
}

func healthyNamespace(name string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(filepath.Join(namespaceFolder, name), &stat) == nil && stat.Type == unix.NSFS_MAGIC
}

// DeleteNamespace removes the name; the namespace ends with its last process.
func DeleteNamespace(name string) error {
	path := filepath.Join(namespaceFolder, name)
	// Several mounts may lie on top of each other after an interrupted creation.
	for range 8 {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			break
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
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
