package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CgroupRoot is the lab's cgroup in every hierarchy. Each node's processes and
// pods live below it, in a cgroup namespace whose root is CgroupRoot/<node>.
const CgroupRoot = "weft-lab"

// Shares of the processors, in the units of cpu.shares. By default a cgroup
// weighs no more than one single thread beside it: neither a whole lab beside
// a busy compiler, nor all pods of a node beside one daemon of the node. On a
// machine of its own a node has all processors, and its pods most of them.
const (
	labShares = 64 << 10
	podShares = 8 << 10
	// podGroup is where containerd puts the pods of a node.
	podGroup = "k8s.io"
)

// Hierarchy is a mounted cgroup hierarchy.
type Hierarchy struct {
	Path    string // mount point
	Type    string // cgroup or cgroup2
	Options string // for mounting it again: the controllers
}

// Mount is a line of /proc/self/mountinfo.
type Mount struct{ Path, Type, SuperOptions string }

// Mounts lists this process's mounts in the order in which they were made.
func Mounts() ([]Mount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer file.Close()
	var mounts []Mount
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if m, ok := parseMount(scanner.Text()); ok {
			mounts = append(mounts, m)
		}
	}
	return mounts, scanner.Err()
}

// parseMount reads one line as proc_pid_mountinfo(5) describes it.
func parseMount(line string) (Mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 6 || len(right) < 3 {
		return Mount{}, false
	}
	path := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(left[4])
	return Mount{Path: path, Type: right[0], SuperOptions: right[2]}, true
}

// Hierarchies lists the cgroup hierarchies that are mounted.
func Hierarchies() ([]Hierarchy, error) {
	mounts, err := Mounts()
	if err != nil {
		return nil, err
	}
	var list []Hierarchy
	for _, m := range mounts {
		if m.Type != "cgroup" && m.Type != "cgroup2" {
			continue
		}
		list = append(list, Hierarchy{Path: m.Path, Type: m.Type, Options: mountOptions(m.Type, m.SuperOptions)})
	}
	return list, nil
}

// mountOptions are the options that mount a hierarchy once more: its
// controllers, or its name. Version 2 has none.
func mountOptions(kind, superOptions string) string {
	if kind != "cgroup" {
		return ""
	}
	var options []string
	for _, option := range strings.Split(superOptions, ",") {
		switch {
		case option == "rw", option == "ro", option == "xattr", option == "clone_children", strings.HasPrefix(option, "release_agent"):
		case strings.HasPrefix(option, "name="):
			options = append(options, "none", option) // a hierarchy without controllers is asked for so
		default:
			options = append(options, option)
		}
	}
	return strings.Join(options, ",")
}

// EnterCgroup moves this process into CgroupRoot/<name> of every hierarchy.
func EnterCgroup(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		dir := h.Path
		for _, part := range []string{CgroupRoot, name} {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make cgroup %s: %w", dir, err)
			}
			if err := inherit(h, parent, dir); err != nil {
				return err
			}
		}
		if err := share(h, dir); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// share gives the lab and the pods of the node's cgroup dir their shares. (Version
// 2 allows no pods below a cgroup that has processes of its own.)
func share(h Hierarchy, dir string) error {
	lab := filepath.Join(filepath.Dir(dir), "cpu.shares")
	if _, err := os.Stat(lab); h.Type != "cgroup" || errors.Is(err, fs.ErrNotExist) {
		return nil // not the hierarchy of the processors
	}
	pods := filepath.Join(dir, podGroup)
	if err := os.Mkdir(pods, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make cgroup %s: %w", pods, err)
	}
	for file, shares := range map[string]int{lab: labShares, filepath.Join(pods, "cpu.shares"): podShares} {
		if err := os.WriteFile(file, []byte(strconv.Itoa(shares)), 0); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

// inherit makes a new cgroup usable: a cpuset of version 1 begins empty and
// takes no process; in version 2 the parent must hand its controllers down.
func inherit(h Hierarchy, parent, dir string) error {
	if h.Type == "cgroup2" {
		controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("read controllers of cgroup %s: %w", parent, err)
		}
		for _, c := range strings.Fields(string(controllers)) {
			// Some controllers may refuse; the lab works without any one of them.
			_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+c), 0)
		}
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // another hierarchy
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), value, 0)
		}
		if err != nil {
			return fmt.Errorf("hand %s down to cgroup %s: %w", file, dir, err)
		}
	}
	return nil
}

// RemoveCgroups removes CgroupRoot and all below it; its processes must be gone.
func RemoveCgroups() error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hierarchies {
		errs = append(errs, removeTree(filepath.Join(h.Path, CgroupRoot)))
	}
	return errors.Join(errs...)
}

// removeTree removes cgroups bottom up. The kernel frees a cgroup a moment
// after its last process, so EBUSY is tried again for a bounded time.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list cgroup %s: %w", dir, err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	for range 250 {
		if err = unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("remove cgroup %s: %w", dir, err)
}

// CgroupProcesses lists the processes below CgroupRoot in any hierarchy.
func CgroupProcesses() []int {
	hierarchies, err := Hierarchies()
	if err != nil {
		return nil
	}
	seen := map[int]bool{}
	var pids []int
	for _, h := range hierarchies {
		_ = filepath.WalkDir(filepath.Join(h.Path, CgroupRoot), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() != "cgroup.procs" {
				return nil
			}
			for _, field := range readFields(path) {
				var pid int
				if _, err := fmt.Sscan(field, &pid); err == nil && pid > 0 && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			return nil
		})
	}
	return pids
}

func readFields(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}
