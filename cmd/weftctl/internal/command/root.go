// Package command is weftctl's command line: flags in, text or JSON out.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// Exit codes.
const (
	exitOK       = 0
	exitProblem  = 1
	exitUsage    = 2
	exitCanceled = 130
)

// errProblem ends a command with exit code 1 after it has printed everything
// itself.
var errProblem = errors.New("something is wrong")

// usageError is a mistake in the command line.
type usageError struct{ error }

// environment is what every command gets.
type environment struct {
	out, err io.Writer
	format   string
	access   kube.Access
	// started is true once the command line has proved well-formed.
	started bool
}

// Run executes the command line and returns the exit code.
func Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	env := &environment{out: out, err: errOut}
	root := newRoot(env)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errProblem):
		return exitProblem
	case ctx.Err() != nil:
		fmt.Fprintln(errOut, "weftctl: interrupted")
		return exitCanceled
	case errors.As(err, &usage) || !env.started:
		fmt.Fprintln(errOut, "weftctl:", err)
		return exitUsage
	default:
		fmt.Fprintln(errOut, "weftctl:", err)
		return exitProblem
	}
}

func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "weftctl",
		Short: "Join Kubernetes clusters into one fabric",
		Long: `weftctl installs Weft into clusters, joins them and says how they are.

It talks to API servers alone, with the kubeconfig and context that kubectl would use.
Results go to standard output, progress to standard error.

Exit codes: 0 it is done or all is well; 1 something is wrong, the message says what to do;
2 the command line is wrong.`,
		Example: `  weftctl install --context berlin --cluster-id berlin
  weftctl install --context milan --cluster-id milan
  weftctl peer --context berlin --peer-context milan
  weftctl status --context berlin
  weftctl dns enable --context berlin`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			env.started = true
			return env.checkFormat()
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&env.access.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&env.access.Context, "context", "", "context in the kubeconfig (default its current one)")
	flags.StringVarP(&env.format, "output", "o", "", "json or yaml instead of text")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newInstall(env), newUninstall(env), newPeer(env), newUnpeer(env), newRecord(env), newAccess(env), newStatus(env), newDNS(env), newChart(env), newVersion(env), newSweep())
	return root
}

// arguments turns cobra's check of positional arguments into a usage error.
func arguments(check cobra.PositionalArgs, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			return usageError{fmt.Errorf("%s takes %s but got %d arguments; see `%s --help`", cmd.CommandPath(), want, len(args), cmd.CommandPath())}
		}
		return nil
	}
}

// progress prints one line of what is going on.
func (e *environment) progress(line string) { fmt.Fprintln(e.err, "  "+line) }
