package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/tools/lab/forward"
	"github.com/weft-fabric/weft/tools/lab/machine"
	"github.com/weft-fabric/weft/tools/lab/supervise"
	"github.com/weft-fabric/weft/tools/wan"
)

// The commands below are the lab's own processes; users do not call them.

func superviseCommand() *cobra.Command {
	var socket, logs string
	c := &cobra.Command{
		Use: "supervise", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), socket, logs) },
	}
	c.Flags().StringVar(&socket, "socket", "", "Unix socket to listen on")
	c.Flags().StringVar(&logs, "logs", "", "folder of the log files")
	return c
}

func serve(ctx context.Context, socket, logs string) error {
	out, err := supervise.OpenLog(filepath.Join(logs, "supervisor.log"))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	return supervise.New(logs, log).Serve(ctx, socket)
}

func nodeFlags(c *cobra.Command, node, folder *string) {
	c.Flags().StringVar(node, "node", "", "name of the node")
	c.Flags().StringVar(folder, "folder", "", "folder of the node")
}

// nodeLaunchCommand enters the node's cgroup and starts process 1 of the node
// in new namespaces; a cgroup namespace takes its root from where its creator is.
func nodeLaunchCommand() *cobra.Command {
	var node, folder string
	c := &cobra.Command{
		Use: "node-launch", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := machine.EnterCgroup(node); err != nil {
				return err
			}
			command := exec.Command("/proc/self/exe", "node-init", "--node="+node, "--folder="+folder)
			command.Stdout, command.Stderr = os.Stdout, os.Stderr
			command.SysProcAttr = &syscall.SysProcAttr{
				Setsid:     true,
				Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
			}
			if err := command.Start(); err != nil {
				return fmt.Errorf("start process 1 of node %s: %w", node, err)
			}
			return command.Process.Release()
		},
	}
	nodeFlags(c, &node, &folder)
	return c
}

// nodeInitCommand is process 1 of a node.
func nodeInitCommand() *cobra.Command {
	var node, folder string
	c := &cobra.Command{
		Use: "node-init", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := unix.Sethostname([]byte(node)); err != nil {
				return fmt.Errorf("set the host name: %w", err)
			}
			if err := machine.NodeMounts(folder); err != nil {
				return fmt.Errorf("mount file systems of node %s: %w", node, err)
			}
			return serve(c.Context(), filepath.Join(folder, "init.sock"), filepath.Join(folder, "logs"))
		},
	}
	nodeFlags(c, &node, &folder)
	return c
}

func forwardCommand() *cobra.Command {
	var listen, namespace, to string
	c := &cobra.Command{
		Use: "forward", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return forward.Run(c.Context(), listen, namespace, to) },
	}
	c.Flags().StringVar(&listen, "listen", "", "loopback address and port")
	c.Flags().StringVar(&namespace, "namespace", "", "network namespace to dial in")
	c.Flags().StringVar(&to, "to", "", "address and port to dial")
	return c
}

func wanCommand() *cobra.Command {
	var a, b wan.End
	var delay time.Duration
	c := &cobra.Command{
		Use: "wan", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// A busy machine must not add to the delay. Without the privilege it is less
			// exact. A priority is a thread's own, but a process group's is every thread's,
			// and the supervisor gave this process a group to itself.
			_ = unix.Setpriority(unix.PRIO_PGRP, 0, -15)
			return runWAN(c.Context(), a, b, delay)
		},
	}
	c.Flags().StringVar(&a.Namespace, "namespace-a", "", "network namespace of one end")
	c.Flags().StringVar(&a.Device, "device-a", "", "name of its TUN device")
	c.Flags().StringVar(&b.Namespace, "namespace-b", "", "network namespace of the other end")
	c.Flags().StringVar(&b.Device, "device-b", "", "name of its TUN device")
	c.Flags().DurationVar(&delay, "delay", 0, "delay of each direction")
	return c
}

func runWAN(ctx context.Context, a, b wan.End, delay time.Duration) error {
	files := [2]*os.File{}
	for i, end := range []wan.End{a, b} {
		file, err := end.Open()
		if err != nil {
			return err
		}
		files[i] = file
		defer closeQuietly(file)
	}
	forth := wan.NewLine(files[1], delay, wan.DefaultQueueBytes)
	back := wan.NewLine(files[0], delay, wan.DefaultQueueBytes)
	return wan.Join(ctx, files[0], files[1], forth, back)
}

func closeQuietly(c io.Closer) { _ = c.Close() }
