package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/weft-fabric/weft/tools/lab/layout"
	"github.com/weft-fabric/weft/tools/lab/machine"
)

// Exec runs a command inside a node, passing signals on. It ends with the command.
func (l *Lab) Exec(node string, command *exec.Cmd) error {
	n, err := l.Spec.FindNode(node)
	if err != nil {
		return err
	}
	// As part of the node it gets the node's share of the processors, and ends
	// with the lab.
	if err := machine.EnterCgroup(n.Name); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	return l.run(n, command, func(child *os.Process) {
		go func() {
			for s := range signals {
				_ = child.Signal(s)
			}
		}()
	})
}

func (l *Lab) run(n layout.Node, command *exec.Cmd, started func(*os.Process)) error {
	pid, err := l.node(n.Name).PID()
	if err != nil {
		return fmt.Errorf("node %s does not run (lab up starts it): %w", n.Name, err)
	}
	return machine.RunInside(pid, command, started)
}

// ExitCode is a shell's reading of how a command ended.
func ExitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
