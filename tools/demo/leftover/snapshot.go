// Package leftover records what a machine holds that a lab could leave behind,
// so that a snapshot from before can be compared with one from after.
package leftover

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// Snapshot lists by kind, each sorted. Only names that stay the same from one
// snapshot to the next are in it: no process ids, no interface indexes.
type Snapshot map[string][]string

// Kinds of things in a snapshot.
const (
	NetworkNamespaces = "networkNamespaces" // names in /run/netns
	Links             = "links"             // of the namespace this runs in
	Mounts            = "mounts"            // mount points of the namespace this runs in
	Pins              = "pins"              // files under /sys/fs/bpf
	Programs          = "bpfPrograms"       // names of loaded programs, machine-wide
	Cgroups           = "cgroups"           // in every hierarchy
	Processes         = "processes"         // command lines, kernel threads left out
	Folders           = "folders"           // entries of temporary and state folders
)

// watchedFolders are where programs leave files. A user's cache is not among
// them: it is meant to stay.
var watchedFolders = []string{"/tmp", "/var/tmp", "/run", "/var/lib", "/var/log", "/etc/cni", "/dev/shm"}

// Take makes a snapshot. It needs root.
func Take() (Snapshot, error) {
	s := Snapshot{}
	links, err := linkNames()
	if err != nil {
		return nil, err
	}
	mounts, err := mountPoints()
	if err != nil {
		return nil, err
	}
	processes, err := commandLines()
	if err != nil {
		return nil, err
	}
	programs, err := programNames()
	if err != nil {
		return nil, err
	}
	s[Links], s[Mounts], s[Processes], s[Programs] = links, mounts, processes, programs
	s[NetworkNamespaces] = entries("/run/netns")
	s[Pins] = walk("/sys/fs/bpf", false)
	s[Cgroups] = walk("/sys/fs/cgroup", true)
	for _, folder := range watchedFolders {
		for _, name := range entries(folder) {
			s[Folders] = append(s[Folders], filepath.Join(folder, name))
		}
	}
	for kind := range s {
		slices.Sort(s[kind])
	}
	return s, nil
}

func linkNames() ([]string, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return names, nil
}

func mountPoints() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, fields[4]) // proc(5): the mount point
		}
	}
	return points, nil
}

func commandLines() ([]string, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	own := ancestors()
	var lines []string
	for _, folder := range folders {
		data, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil || len(data) == 0 || own[filepath.Base(folder)] {
			continue // gone meanwhile, a kernel thread, or this command itself
		}
		lines = append(lines, strings.TrimSpace(strings.ReplaceAll(string(data), "\x00", " ")))
	}
	return lines, nil
}

// ancestors are this process and all above it.
func ancestors() map[string]bool {
	own := map[string]bool{}
	for pid := fmt.Sprint(os.Getpid()); pid != "" && pid != "0" && !own[pid]; {
		own[pid] = true
		data, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			break
		}
		// proc(5): pid (comm) state ppid; comm may hold spaces and parentheses.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(fields) < 2 {
			break
		}
		pid = fields[1]
	}
	return own
}

func entries(folder string) []string {
	list, err := os.ReadDir(folder)
	if err != nil {
		return nil // a folder that does not exist holds nothing
	}
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

// walk lists what is below root: folders only, or files as well.
func walk(root string, foldersOnly bool) []string {
	var paths []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != root && (entry.IsDir() || !foldersOnly) {
			paths = append(paths, path)
		}
		return nil // what went away meanwhile is not left over
	})
	return paths
}
