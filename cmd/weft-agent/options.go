package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weft-fabric/weft/dataplane/agent"
	"github.com/weft-fabric/weft/dataplane/source"
)

// options are the flags.
type options struct {
	node, directory, kubeconfig string
	pinRoot, stateDir, runDir   string
	underlay, logLevel          string
}

func (o *options) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "name of this node's Node and FabricNode (environment: NODE_NAME)")
	flags.StringVar(&o.directory, "directory", "", "read the objects from the YAML files of this folder instead of an API server")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the API server; empty inside a pod")
	flags.StringVar(&o.pinRoot, "pin-root", "/sys/fs/bpf/weft", "folder on a bpffs that keeps maps and programs over restarts")
	flags.StringVar(&o.stateDir, "state-dir", "/var/lib/weft", "folder that keeps this node's private keys")
	flags.StringVar(&o.runDir, "run-dir", "/run/weft", "folder that is shared with weft-wireguard")
	flags.StringVar(&o.underlay, "underlay-address", os.Getenv("HOST_IP"), "IPv4 address at which the cluster's nodes reach this one (environment: HOST_IP; default: that of the default route)")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
}

// log returns the logger, which also takes what the Kubernetes libraries say.
func (o *options) log() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q is none of debug, info, warn and error", o.logLevel)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	return log, nil
}

// agentOptions turns the flags into what the agent needs.
func (o *options) agentOptions(log *slog.Logger) (agent.Options, error) {
	out := agent.Options{Node: o.node, PinRoot: o.pinRoot, StateDir: o.stateDir, RunDir: o.runDir, Log: log}
	if o.node == "" {
		return out, errors.New("the node's name is not known; set --node-name or NODE_NAME")
	}
	if o.underlay != "" {
		address, err := netip.ParseAddr(o.underlay)
		if err != nil || !address.Is4() {
			return out, fmt.Errorf("--underlay-address %q is not an IPv4 address", o.underlay)
		}
		out.Underlay = address
	}
	if o.directory != "" {
		out.Source = source.NewDirectory(o.directory, o.node, log)
		return out, nil
	}
	config, err := o.restConfig()
	if err != nil {
		return out, err
	}
	out.Source, err = source.NewAPI(config, o.node)
	return out, err
}

func (o *options) restConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find the API server (outside of a pod, set --kubeconfig or --directory): %w", err)
	}
	return config, nil
}
