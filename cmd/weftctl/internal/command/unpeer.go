package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
	// Name that the ForeignCluster has there; empty if it is not known.
	Name string `json:"name,omitempty"`
	// Removed: there is no ForeignCluster any more.
	Removed bool `json:"removed"`
	// Already: there was none before.
	Already bool `json:"already,omitempty"`
	// Others are the ForeignClusters that there are, if Already.
	Others []string `json:"others,omitempty"`
	// Note says why the object may come back.
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"`
}

func newUnpeer(env *environment) *cobra.Command {
	var other kube.Access
	order := unpeering{progress: env.lockedProgress()}
	cmd := &cobra.Command{
		Use:   "unpeer NAME",
		Short: "End the peering with another cluster",
		Long: `Removes the ForeignCluster NAME here, and with it the tunnel, the addresses and the services of that cluster; with
--peer-kubeconfig or --peer-context also the one by which that cluster knows this one. Weft and other peerings stay, and
so do PrefixClaims, by which a later peering finds the same addresses. It ends within 30 s, also while the other side is
dead.

If there is no ForeignCluster NAME here any more it says so, and that is no error. If NAME is not the cluster that
--peer-kubeconfig leads to, or that one still knows this one while NAME is gone here, nothing is touched on either side.
With --peer-only the other side alone is cleaned up, to finish a peering that is ended here already.`,
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
	cmd.Flags().BoolVar(&order.force, "force", false, "if weft-controller does not answer, remove the ForeignCluster without it: what it made stays until it runs again")
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
	named, others, err := u.named(ctx, here)
	if err != nil {
		return nil, err
	}
	if named == nil {
		return []parted{{Side: "here", Name: u.name, Removed: true, Already: true, Others: others}}, nil
	}
	return []parted{u.partHere(ctx, here, named)}, nil
}

// both ends the peering on both sides at the same time, so that one dead side
// does not delay the other. An error means that nothing was touched.
func (u unpeering) both(ctx context.Context, here client.Client, connect func() (client.Client, error)) ([]parted, error) {
	named, others, err := u.named(ctx, here)
	if err != nil {
		return nil, err
	}
	own, err := kube.FabricConfig(ctx, here)
	if err != nil {
		return nil, err
	}
	looked := make(chan otherSide, 1)
	go func() { looked <- lookThere(ctx, connect) }()
	if named == nil && !u.peerOnly {
		return u.gone(ctx, here, <-looked, own.Status.Identity, others)
	}
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
		sides.Go(func() { results[0] = u.partHere(ctx, here, named) })
	}
	sides.Go(func() { results[1] = u.partThere(ctx, <-looked, named, own.Status.Identity) })
	sides.Wait()
	if u.peerOnly {
		return results[1:], nil
	}
	return results, nil
}

// gone is what is left to do where there is no ForeignCluster of the name here.
// It is fine if neither side knows the other; else the name may be mistyped.
func (u unpeering) gone(ctx context.Context, here client.Client, there otherSide, own v1alpha1.Identity, others []string) ([]parted, error) {
	if there.err != nil {
		return nil, there.err
	}
	known, err := peering.Known(ctx, here, there.config.Status.Identity)
	if err != nil {
		return nil, err
	}
	knows, err := peering.Known(ctx, there, own)
	if err != nil {
		return nil, err
	}
	if known != nil || knows != nil {
		return nil, fmt.Errorf("%w, or add --peer-only to clean up the other cluster alone", &peering.UnknownError{Name: u.name, Others: others})
	}
	return []parted{
		{Side: "here", Name: u.name, Removed: true, Already: true, Others: others},
		{Side: "there", Removed: true, Already: true},
	}, nil
}

// named returns the ForeignCluster that is to be parted from, nil and the names
// of those that there are if it is gone.
func (u unpeering) named(ctx context.Context, here client.Client) (*v1alpha1.ForeignCluster, []string, error) {
	named, err := peering.Named(ctx, here, u.name)
	unknown := &peering.UnknownError{}
	if errors.As(err, &unknown) {
		return nil, unknown.Others, nil
	}
	return named, nil, err
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

func (u unpeering) partHere(ctx context.Context, here client.Client, named *v1alpha1.ForeignCluster) parted {
	p := result(ctx, "here", u.name, peering.Part(ctx, here, u.name, u.force, u.progress))
	if !named.Spec.MadeByAdmin() {
		p.Note = fmt.Sprintf("weft-controller makes %s anew for as long as it %s: revoke that with `weftctl access NAME --use-as-hub=false` or --introductions Deny, NAME being the hub or introducer",
			u.name, strings.Join(whys(named), " and "))
	}
	return p
}

// whys are the reasons for which weft-controller made an object.
func whys(fcl *v1alpha1.ForeignCluster) []string {
	var whys []string
	if through := fcl.Spec.ReachedThrough; len(through) > 0 {
		whys = append(whys, "is reached through "+strings.Join(through, ", "))
	}
	if by := fcl.Spec.IntroducedBy; len(by) > 0 {
		whys = append(whys, "is introduced by "+strings.Join(by, ", "))
	}
	return whys
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
		gone := result(ctx, "there", "", err)
		gone.Already = err == nil
		return gone
	}
	return result(ctx, "there", known.Name, peering.Part(ctx, there, known.Name, u.force, u.progress))
}

func result(ctx context.Context, side, name string, err error) parted {
	p := parted{Side: side, Name: name, Removed: err == nil}
	if errors.Is(err, peering.ErrGone) {
		p.Removed, p.Already = true, true
	} else if err != nil {
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
			case p.Already:
				fmt.Fprintln(w, p.already())
			default:
				fmt.Fprintf(w, "The peering with %s is removed %s.\n", p.Name, p.Side)
			}
			if p.Note != "" {
				fmt.Fprintf(w, "Note: %s.\n", p.Note)
			}
		}
		if slices.ContainsFunc(results, func(p parted) bool { return p.Removed && !p.Already }) {
			fmt.Fprintln(w, "PrefixClaims stay, so that peering again finds the same addresses.")
		}
		if len(results) == 1 && results[0].Removed && !results[0].Already && results[0].Side == "here" {
			fmt.Fprintln(w, "The other side still has its ForeignCluster, which is not connected any more: `weftctl unpeer` there removes it.")
		}
	})
	for _, p := range results {
		if !p.Removed && err == nil {
			err = errProblem
		}
	}
	return err
}

// already is the sentence that says that nothing was to be removed.
func (p parted) already() string {
	switch {
	case p.Side == "there":
		return "The other cluster does not know this one, so nothing was to be removed there."
	case len(p.Others) == 0:
		return fmt.Sprintf("There is no ForeignCluster %s here, nor any other: the peering is already gone.", p.Name)
	}
	return fmt.Sprintf("There is no ForeignCluster %s here: the peering is already gone, if that is its name (there are %s).", p.Name, strings.Join(p.Others, ", "))
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
