package machine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// RunInside runs a command in the mount, network, host name and PID namespaces
// of process pid. started is told the child, whose id is that of this process's
// PID namespace.
func RunInside(pid int, command *exec.Cmd, started func(*os.Process)) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread stays in the namespaces
		result <- func() error {
			if err := enter(pid); err != nil {
				return err
			}
			command.Dir = "/" // the thread's working folder is in the old mount namespace
			if err := command.Start(); err != nil {
				return err
			}
			if started != nil {
				started(command.Process)
			}
			return command.Wait()
		}()
	}()
	return <-result
}

// enter moves the calling thread. Threads share their working folder, which
// forbids a change of the mount namespace; so that is unshared first.
func enter(pid int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the working folder: %w", err)
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(process)
	// One call for all, so that none is opened through the /proc of another (Linux 5.8).
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWPID
	if err := unix.Setns(process, flags); err != nil {
		return fmt.Errorf("enter the namespaces of process %d: %w", pid, err)
	}
	return nil
}
