package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// MarkVariable is in the environment of every process that the lab starts.
const MarkVariable = "WEFT_LAB"

// Mark is the environment entry of a lab's processes.
func Mark(root string) string { return MarkVariable + "=" + root }

// MarkedProcesses finds the lab's processes by their environment, so that
// nothing needs to be remembered. Pods do not carry the mark, but end with
// process 1 of their node's PID namespace, which does.
func MarkedProcesses(root string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	mark := []byte(Mark(root))
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environment, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
		if err != nil {
			continue // gone, or a kernel thread
		}
		for _, variable := range bytes.Split(environment, []byte{0}) {
			if bytes.Equal(variable, mark) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}

// OtherLab returns the state folder of a running lab other than root, or "".
// isLab says whether a folder holds the state of a lab.
func OtherLab(root string, isLab func(folder string) bool) string {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environments {
		environment, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, variable := range strings.Split(string(environment), "\x00") {
			if other, ok := strings.CutPrefix(variable, MarkVariable+"="); ok && other != root && isLab(other) {
				return other
			}
		}
	}
	return ""
}

// KillAll kills what list returns until it returns nothing, for a bounded time.
func KillAll(list func() ([]int, error)) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		pids, err := list()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end; look at them in ps and run lab down again", pids)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
