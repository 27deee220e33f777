package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// dnsWait is how long a changed ConfigMap may take to be in force: up to two
// minutes by the kubelet's and CoreDNS's own intervals.
const dnsWait = 4 * time.Minute

func newDNS(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dns",
		Short: "Have the cluster's DNS forward clusterset.local to weft-dns, or not",
		Long: `Multi-cluster services have names SERVICE.NAMESPACE.svc.clusterset.local, for which weft-dns answers. These commands
put a block of their own into the configuration of CoreDNS, by which it forwards that zone, take it out, and ask the
cluster's DNS from inside whether it works. They change nothing else in it.`,
		Args: arguments(cobra.NoArgs, "enable, disable or check"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDNSEnable(env), newDNSDisable(env), newDNSCheck(env))
	return cmd
}

// dnsFlags are common to the commands.
type dnsFlags struct{ options dns.Options }

func (f *dnsFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.options.ConfigMap, "configmap", "", "NAMESPACE/NAME of the ConfigMap with CoreDNS's Corefile (default the one in kube-system)")
}

func (f *dnsFlags) addForce(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.options.Force, "force", false, "give up what somebody has changed in Weft's block")
}

func (f *dnsFlags) check() error {
	namespace, name, found := strings.Cut(f.options.ConfigMap, "/")
	if f.options.ConfigMap != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return usageError{fmt.Errorf("--configmap %s is not NAMESPACE/NAME", f.options.ConfigMap)}
	}
	if f.options.Wait < 0 {
		return usageError{fmt.Errorf("--wait %s is less than nothing: give a duration, or 0 not to wait", f.options.Wait)}
	}
	return nil
}

// connect checks the flags, and connects to the API server and through it to
// weft-dns.
func (f *dnsFlags) connect(ctx context.Context, env *environment) (*kube.Cluster, dns.Asker, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	c, err := kube.Connect(ctx, env.access)
	if err != nil {
		return nil, nil, err
	}
	ask, err := dns.ThroughAPI(c.Config)
	return c, ask, err
}

func newDNSEnable(env *environment) *cobra.Command {
	var flags dnsFlags
	cmd := &cobra.Command{
		Use:   "enable",
		Short: "Have CoreDNS forward clusterset.local to weft-dns, and wait until it does",
		Long: `Writes a marked block into the Corefile, or brings it up to date, and waits until pods get answers for the zone. It can be
repeated; what is as it should be is not written again. A block that somebody has changed is left alone unless --force is
given, and so is a zone clusterset.local of somebody else.`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, ask, err := flags.connect(cmd.Context(), env)
			if err != nil {
				return err
			}
			change, err := dns.Enable(cmd.Context(), c, ask, flags.options, env.progress)
			if err != nil {
				return err
			}
			return env.print(change, change.Text)
		},
	}
	flags.add(cmd)
	flags.addForce(cmd)
	cmd.Flags().DurationVar(&flags.options.Wait, "wait", dnsWait, "how long to wait for the cluster's DNS to answer; 0: do not wait")
	return cmd
}

func newDNSDisable(env *environment) *cobra.Command {
	var flags dnsFlags
	cmd := &cobra.Command{
		Use:   "disable",
		Short: "Take Weft's block out of CoreDNS's configuration",
		Long: `Takes the block out that enable wrote, and leaves every other byte as it is. Pods then find no services of other clusters
by name; their addresses go on working. A block that somebody has changed is left alone unless --force is given.`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := flags.connect(cmd.Context(), env)
			if err != nil {
				return err
			}
			change, err := dns.Disable(cmd.Context(), c, flags.options)
			if err != nil {
				return err
			}
			return env.print(change, change.Text)
		},
	}
	flags.add(cmd)
	flags.addForce(cmd)
	return cmd
}

func newDNSCheck(env *environment) *cobra.Command {
	var flags dnsFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the cluster's DNS answers for clusterset.local, and why not",
		Long: `Looks at the Corefile, and has the pods of weft-dns ask the cluster's DNS as any pod does. It changes nothing.
Exit code 0: all is well; 1: there is a problem.`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, ask, err := flags.connect(cmd.Context(), env)
			if err != nil {
				return err
			}
			report, err := dns.Check(cmd.Context(), c, ask, flags.options.ConfigMap)
			if err != nil {
				return err
			}
			if err := env.print(report, report.Text); err != nil {
				return err
			}
			if !report.Healthy {
				return errProblem
			}
			return nil
		},
	}
	flags.add(cmd)
	return cmd
}
