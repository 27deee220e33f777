package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// unpeerLimit bounds the whole command, dead API servers included.
const unpeerLimit = 29 * time.Second

// lookLimit bounds the wait for the other side's identity. A side that is dead
// for longer does not keep this one from parting.
const lookLimit = 5 * time.Second

// parted is what unpeer ended with on one side.
type parted struct {
	Side string `json:"side"`
	// Name that the ForeignCluster has there; empty if there was none.
	Name    string `json:"name,omitempty"`
	Removed bool   `json:"removed"`
	Error   string `json:"error,omitempty"`
}

func newUnpeer(env *environment) *cobra.Command {
	var other kube.Access
	order := unpeering{progress: env.lockedProgress()}
	cmd := &cobra.Command{
		Use:   "unpeer NAME",
		Short: "End the peering with another cluster",
		Long: `Deletes the ForeignCluster NAME here and, with --peer-kubeconfig or --peer-context, also the one by which that
cluster knows this one. It ends within 30 s, also while the other side is dead, and leaves only PrefixClaims, so that
peering again finds the same addresses.

If there is no ForeignCluster NAME here, or if it is not the cluster that --peer-kubeconfig leads to, nothing is touched
on either side. With --peer-only the other side alone is cleaned up, to finish a peering that is ended here already.`,
		Args: arguments(cobra.ExactArgs(1), "the name of a ForeignCluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			order.name = args[0]
			if order.peerOnly && other == (kube.Access{}) {
				return usageError{fmt.Errorf("--peer-only of which cluster? Give --peer-kubeconfig FILE or --peer-context NAME")}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), unpeerLimit)
			defer cancel()
			here, err := kube.Connect(ctx, env.access)
			if err != nil {
				return err
			}
			var results []parted
			if other == (kube.Access{}) {
				results, err = order.here(ctx, here)
			} else {
				results, err = order.both(ctx, here, func() (client.Client, error) { return kube.Connect(ctx, env.otherAccess(other)) })
			}
			if err != nil {
				return err
			}
			return env.printParted(results)
		},
	}
	peerAccess(cmd, &other)
	cmd.Flags().BoolVar(&order.force, "force", false, "if weft-controller does not answer, drop the object's finalizer")
	cmd.Flags().BoolVar(&order.peerOnly, "peer-only", false, "clean up the other cluster alone, to finish a peering that is ended here already")
	return cmd
}

// unpeering is what unpeer is asked to do.
type unpeering struct {
	name            string
	force, peerOnly bool
	progress        wait.Progress
}

// here ends the peering on this side alone.
func (u unpeering) here(ctx context.Context, here client.Client) ([]parted, error) {
	if _, err := peering.Named(ctx, here, u.name); err != nil {
		return nil, err
	}
	return []parted{u.partHere(ctx, here)}, nil
}

// both ends the peering on both sides at the same time, so that one dead side
// does not delay the other. An error means that nothing was touched.
func (u unpeering) both(ctx context.Context, here client.Client, connect func() (client.Client, error)) ([]parted, error) {
	named, err := u.named(ctx, here)
	if err != nil {
		return nil, err
	}
	own, err := kube.FabricConfig(ctx, here)
	if err != nil {
		return nil, err
	}
	looked := make(chan otherSide, 1)
	go func() { looked <- lookThere(ctx, connect) }()
	select {
	case there := <-looked:
		if err := there.differs(named); err != nil {
			return nil, err
		}
		looked <- there
	case <-time.After(lookLimit):
	}
	results := make([]parted, 2)
	var sides sync.WaitGroup
	if !u.peerOnly {
		sides.Go(func() { results[0] = u.partHere(ctx, here) })
	}
	sides.Go(func() { results[1] = u.partThere(ctx, <-looked, named, own.Status.Identity) })
	sides.Wait()
	if u.peerOnly {
		return results[1:], nil
	}
	return results, nil
}

// named returns the ForeignCluster that is to be parted from; with --peer-only
// it may be gone already, which is nil.
func (u unpeering) named(ctx context.Context, here client.Client) (*v1alpha1.ForeignCluster, error) {
	named, err := peering.Named(ctx, here, u.name)
	unknown := &peering.UnknownError{}
	switch {
	case !errors.As(err, &unknown):
		return named, err
	case u.peerOnly:
		return nil, nil
	}
	return nil, fmt.Errorf("%w, or add --peer-only to clean up the other cluster alone", err)
}

// otherSide is the cluster that the flags lead to.
type otherSide struct {
	client.Client
	config *v1alpha1.FabricConfig
	err    error
}

func lookThere(ctx context.Context, connect func() (client.Client, error)) otherSide {
	there, err := connect()
	if err != nil {
		return otherSide{err: err}
	}
	config, err := kube.FabricConfig(ctx, there)
	return otherSide{Client: there, config: config, err: err}
}

// differs returns an error if the other side is known to be another cluster
// than the one that was named.
func (o otherSide) differs(named *v1alpha1.ForeignCluster) error {
	if o.err != nil || named == nil || o.config.Status.Identity == named.Spec.Identity {
		return nil
	}
	return fmt.Errorf("ForeignCluster %s has identity %s, but the other kubeconfig leads to cluster %s with identity %q: name the right one, or end the peering here alone with `weftctl unpeer %s`, without --peer-kubeconfig and --peer-context",
		named.Name, named.Spec.Identity, o.config.Spec.ClusterID, o.config.Status.Identity, named.Name)
}

func (u unpeering) partHere(ctx context.Context, here client.Client) parted {
	return result(ctx, "here", u.name, peering.Part(ctx, here, u.name, u.force, u.progress))
}

func (u unpeering) partThere(ctx context.Context, there otherSide, named *v1alpha1.ForeignCluster, own v1alpha1.Identity) parted {
	err := there.err
	if err == nil {
		err = there.differs(named)
	}
	if err != nil {
		return result(ctx, "there", "", err)
	}
	known, err := peering.Known(ctx, there, own)
	if err != nil || known == nil {
		return result(ctx, "there", "", err)
	}
	return result(ctx, "there", known.Name, peering.Part(ctx, there, known.Name, u.force, u.progress))
}

func result(ctx context.Context, side, name string, err error) parted {
	p := parted{Side: side, Name: name, Removed: err == nil}
	if err != nil {
		p.Error = err.Error()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.Error = fmt.Sprintf("not done within %s: run `weftctl unpeer` against it when its API server answers", unpeerLimit)
		}
	}
	return p
}

func (e *environment) printParted(results []parted) error {
	err := e.print(map[string]any{"sides": results}, func(w io.Writer) {
		for _, p := range results {
			switch {
			case !p.Removed:
				fmt.Fprintf(e.err, "weftctl: %s: %s\n", p.Side, p.Error)
			case p.Name == "":
				fmt.Fprintln(w, "The other cluster does not know this one, so nothing was to be removed there.")
			default:
				fmt.Fprintf(w, "The peering with %s is removed %s.\n", p.Name, p.Side)
			}
		}
		if len(results) == 1 && results[0].Removed && results[0].Side == "here" {
			fmt.Fprintln(w, "The other side keeps its ForeignCluster, not connected, until it is deleted there.")
		}
	})
	for _, p := range results {
		if !p.Removed && err == nil {
			err = errProblem
		}
	}
	return err
}

// lockedProgress is progress for several goroutines.
func (e *environment) lockedProgress() wait.Progress {
	var lock sync.Mutex
	return func(line string) {
		lock.Lock()
		defer lock.Unlock()
		e.progress(line)
	}
}
