package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/tools/lab/cluster"
	"github.com/weft-fabric/weft/tools/lab/layout"
)

func upCommand() *cobra.Command {
	var wishes layout.Options
	c := &cobra.Command{
		Use: "up", Short: "Start the clusters, or what is missing of them", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lab, err := cluster.At(c.OutOrStdout())
			if err != nil {
				return err
			}
			return lab.Up(c.Context(), wishes, c.Flags().NFlag() > 0)
		},
	}
	c.Flags().IntVar(&wishes.Clusters, "clusters", 2, "number of clusters: a, b, c, …")
	c.Flags().IntVar(&wishes.Nodes, "nodes", 2, "nodes of each cluster: a1, a2, …")
	c.Flags().StringToStringVar(&wishes.PodCIDRs, "pod-cidr", nil, "pod CIDR by cluster, such as a=10.1.0.0/16 (default 10.244.0.0/16 everywhere)")
	c.Flags().StringToStringVar(&wishes.ServiceCIDRs, "service-cidr", nil, "service CIDR by cluster (default 10.96.0.0/16 everywhere)")
	c.Flags().StringSliceVar(&wishes.NAT, "nat", nil, "clusters whose nodes sit behind a source NAT")
	c.Flags().StringVar(&wishes.ProxyMode, "proxy-mode", "nftables", "kube-proxy's mode: nftables or iptables")
	return c
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Remove everything, also after a crash half way", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lab, err := cluster.At(c.OutOrStdout())
			if err != nil {
				return err
			}
			return lab.Down()
		},
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show clusters, nodes and links", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lab, err := cluster.Open(c.OutOrStdout())
			if err != nil {
				return err
			}
			return lab.Status(c.Context())
		},
	}
}

func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl <cluster> [arguments]", Short: "Run kubectl against a cluster",
		// All flags are kubectl's.
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
				return c.Help()
			}
			lab, err := cluster.Open(c.OutOrStdout())
			if err != nil {
				return err
			}
			if _, err := lab.Spec.Find(args[0]); err != nil {
				return err
			}
			environment := append(os.Environ(), "KUBECONFIG="+lab.Folders.Kubeconfig(args[0]))
			return replace(lab.Folders.Kube(), append([]string{"kubectl"}, args[1:]...), environment)
		},
	}
}

func kubeconfigCommand() *cobra.Command {
	var path bool
	c := &cobra.Command{
		Use: "kubeconfig <cluster>", Short: "Print a cluster's kubeconfig, which works on this machine", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			lab, err := cluster.Open(c.OutOrStdout())
			if err != nil {
				return err
			}
			if _, err := lab.Spec.Find(args[0]); err != nil {
				return err
			}
			file := lab.Folders.Kubeconfig(args[0])
			if path {
				fmt.Fprintln(c.OutOrStdout(), file)
				return nil
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read the kubeconfig (lab up writes it): %w", err)
			}
			_, err = c.OutOrStdout().Write(data)
			return err
		},
	}
	c.Flags().BoolVar(&path, "path", false, "print the file's path instead")
	return c
}

func loadImageCommand() *cobra.Command {
	var clusters []string
	c := &cobra.Command{
		Use: "load-image <archive>", Short: "Load an OCI or Docker archive into all nodes", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			lab, err := cluster.Open(c.OutOrStdout())
			if err != nil {
				return err
			}
			return lab.LoadImage(c.Context(), args[0], clusters)
		},
	}
	c.Flags().StringSliceVar(&clusters, "cluster", nil, "only these clusters")
	return c
}

func execCommand() *cobra.Command {
	return &cobra.Command{
		Use: "exec <node> -- <command>", Short: "Run a command inside a node", Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			lab, err := cluster.Open(c.OutOrStdout())
			if err != nil {
				return err
			}
			// setpriv: the command ends with this process, also by kill -9. Go's own
			// Pdeathsig takes a parent outside of the PID namespace for a dead one.
			command := exec.Command("setpriv", append([]string{"--pdeathsig", "KILL", "--"}, args[1:]...)...)
			command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
			return lab.Exec(args[0], command)
		},
	}
}

func linkCommand() *cobra.Command {
	var rtt time.Duration
	var down, up bool
	c := &cobra.Command{
		Use: "link <cluster> <cluster>", Short: "Delay or cut the path between two clusters", Args: cobra.ExactArgs(2),
		Example: "  lab link a b --rtt 20ms\n  lab link a b --down\n  lab link a b --up --rtt 0",
		RunE: func(c *cobra.Command, args []string) error {
			lab, err := cluster.Open(c.OutOrStdout())
			if err != nil {
				return err
			}
			var change cluster.LinkChange
			if c.Flags().Changed("rtt") {
				change.RTT = &rtt
			}
			if down && up {
				return errors.New("--down and --up contradict each other; give one")
			}
			if down || up {
				change.Down = &down
			}
			return lab.ChangeLink(c.Context(), args[0], args[1], change)
		},
	}
	c.Flags().DurationVar(&rtt, "rtt", 0, "round trip time to emulate, such as 20ms; 0 is a plain cable")
	c.Flags().BoolVar(&down, "down", false, "drop everything silently")
	c.Flags().BoolVar(&up, "up", false, "undo --down")
	return c
}

func apiServerCommand() *cobra.Command {
	var down, up bool
	c := &cobra.Command{
		Use: "apiserver <cluster>", Short: "Stop or start a cluster's API server", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if down == up {
				return errors.New("say --down or --up")
			}
			lab, err := cluster.Open(c.OutOrStdout())
			if err != nil {
				return err
			}
			return lab.APIServer(c.Context(), args[0], up)
		},
	}
	c.Flags().BoolVar(&down, "down", false, "stop it")
	c.Flags().BoolVar(&up, "up", false, "start it and wait until it is ready")
	return c
}

// replace becomes another program.
func replace(path string, args, environment []string) error {
	if err := syscall.Exec(path, args, environment); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}
