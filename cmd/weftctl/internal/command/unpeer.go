package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// unpeerLimit bounds the whole command, dead API servers included.
const unpeerLimit = 29 * time.Second

// parted is what unpeer ended with on one side.
type parted struct {
	Side    string `json:"side"`
	Removed bool   `json:"removed"`
	Error   string `json:"error,omitempty"`
}

func newUnpeer(env *environment) *cobra.Command {
	var other kube.Access
	var force bool
	cmd := &cobra.Command{
		Use:   "unpeer NAME",
		Short: "End the peering with another cluster",
		Long: `Deletes the ForeignCluster NAME here and, with --peer-kubeconfig or --peer-context, also the one by which that
cluster knows this one. It ends within 30 s, also while the other side is dead, and leaves only PrefixClaims, so that
peering again finds the same addresses.`,
		Args: arguments(cobra.ExactArgs(1), "the name of a ForeignCluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), unpeerLimit)
			defer cancel()
			here, err := kube.Connect(ctx, env.access)
			if err != nil {
				return err
			}
			results := []parted{}
			if other == (kube.Access{}) {
				results = append(results, result(ctx, "here", peering.Part(ctx, here, args[0], force, env.progress)))
			} else {
				results = partBoth(ctx, env, here, env.otherAccess(other), args[0], force)
			}
			return env.printParted(args[0], results)
		},
	}
	peerAccess(cmd, &other)
	cmd.Flags().BoolVar(&force, "force", false, "if weft-controller does not answer, drop the object's finalizer")
	return cmd
}

// partBoth ends the peering on both sides at the same time, so that one dead
// side does not delay the other.
func partBoth(ctx context.Context, env *environment, here *kube.Cluster, other kube.Access, name string, force bool) []parted {
	own, err := kube.FabricConfig(ctx, here)
	if err != nil {
		return []parted{result(ctx, "here", err)}
	}
	var lock sync.Mutex
	progress := func(line string) {
		lock.Lock()
		defer lock.Unlock()
		env.progress(line)
	}
	results := make([]parted, 2)
	var both sync.WaitGroup
	both.Go(func() { results[0] = result(ctx, "here", peering.Part(ctx, here, name, force, progress)) })
	both.Go(func() { results[1] = result(ctx, "there", partThere(ctx, other, own.Status.Identity, force, progress)) })
	both.Wait()
	return results
}

func partThere(ctx context.Context, other kube.Access, own v1alpha1.Identity, force bool, progress func(string)) error {
	there, err := kube.Connect(ctx, other)
	if err != nil {
		return err
	}
	known, err := peering.Known(ctx, there, own)
	if err != nil || known == nil {
		return err
	}
	return peering.Part(ctx, there, known.Name, force, progress)
}

func result(ctx context.Context, side string, err error) parted {
	p := parted{Side: side, Removed: err == nil}
	if err != nil {
		p.Error = err.Error()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			p.Error = fmt.Sprintf("not done within %s: run `weftctl unpeer` against it when its API server answers", unpeerLimit)
		}
	}
	return p
}

func (e *environment) printParted(name string, results []parted) error {
	err := e.print(map[string]any{"sides": results}, func(w io.Writer) {
		for _, p := range results {
			if p.Removed {
				fmt.Fprintf(w, "The peering with %s is removed %s.\n", name, p.Side)
			} else {
				fmt.Fprintf(e.err, "weftctl: %s: %s\n", p.Side, p.Error)
			}
		}
		if len(results) == 1 && results[0].Removed {
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
