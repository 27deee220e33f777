package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// grantFlags are the flags by which one side grants something to the other.
type grantFlags struct {
	prefix                                   string
	pods, transit, introductions, introduced string
	exportServices, importServices           string
	useAsHub                                 bool
}

// add defines the flags, for the ForeignCluster here or, with prefix "peer-",
// for the one by which the other side knows this cluster.
func (g *grantFlags) add(cmd *cobra.Command, prefix string) {
	g.prefix = prefix
	self, other := "this cluster", "the other"
	if prefix != "" {
		self, other = other, self
	}
	flags := cmd.Flags()
	text := func(into *string, name, usage string) {
		flags.StringVar(into, prefix+name, "", strings.NewReplacer("SELF", self, "OTHER", other).Replace(usage))
	}
	text(&g.pods, "pods", "pods of SELF that OTHER may open flows to: All or None (default All for a new peer)")
	text(&g.exportServices, "export-services", "services exported in SELF that OTHER is told of: All, None or those of namespaces, with commas (default All for a new peer)")
	text(&g.importServices, "import-services", "services exported in OTHER that SELF imports: All, None or those of namespaces, with commas (default All for a new peer)")
	text(&g.transit, "transit", "clusters that OTHER may exchange traffic with through SELF: their names there with commas, or all, or none (default none for a new peer)")
	flags.BoolVar(&g.useAsHub, prefix+"use-as-hub", false, fmt.Sprintf("%s reaches clusters through %s, which can read and forge that traffic", self, other))
	text(&g.introductions, "introductions", "what SELF does with clusters that OTHER introduces for a direct link: Allow, Ask or Deny (default Deny for a new peer)")
	text(&g.introduced, "introduced", "pods of SELF that clusters known through OTHER alone may open flows to: All or None (default None for a new peer)")
}

// read returns what was said on the command line.
func (g *grantFlags) read(cmd *cobra.Command) (peering.Grants, error) {
	var grants peering.Grants
	var err error
	if grants.Pods, err = choice(g.flag("pods"), g.pods, v1alpha1.PodAccessAll, v1alpha1.PodAccessNone); err != nil {
		return grants, err
	}
	if grants.Introduced, err = choice(g.flag("introduced"), g.introduced, v1alpha1.PodAccessAll, v1alpha1.PodAccessNone); err != nil {
		return grants, err
	}
	grants.Introductions, err = choice(g.flag("introductions"), g.introductions, v1alpha1.IntroductionAllow, v1alpha1.IntroductionAsk, v1alpha1.IntroductionDeny)
	if err != nil {
		return grants, err
	}
	if grants.ExportServices, grants.ExportNamespaces, err = servicePolicy(g.flag("export-services"), g.exportServices); err != nil {
		return grants, err
	}
	if grants.ImportServices, grants.ImportNamespaces, err = servicePolicy(g.flag("import-services"), g.importServices); err != nil {
		return grants, err
	}
	if cmd.Flags().Changed(g.prefix + "transit") {
		if grants.Transit, err = neighborNames(g.flag("transit"), g.transit); err != nil {
			return grants, err
		}
	}
	if cmd.Flags().Changed(g.prefix + "use-as-hub") {
		grants.UseAsHub = &g.useAsHub
	}
	return grants, nil
}

func (g *grantFlags) flag(name string) string { return "--" + g.prefix + name }

// choice reads a flag's value, which may be empty, as one of the choices.
func choice[T ~string](flag, value string, choices ...T) (T, error) {
	if value == "" || slices.Contains(choices, T(value)) {
		return T(value), nil
	}
	var names []string
	for _, c := range choices {
		names = append(names, string(c))
	}
	last := len(names) - 1
	return "", usageError{fmt.Errorf("%s %s is not known: choose %s or %s", flag, value, strings.Join(names[:last], ", "), names[last])}
}

// maxNamespaces is how many an object takes.
const maxNamespaces = 256

// servicePolicy reads a policy, or a list of namespaces, none of which has the
// name of a policy: theirs are in small letters.
func servicePolicy(flag, value string) (v1alpha1.ServicePolicy, []string, error) {
	switch policy := v1alpha1.ServicePolicy(value); policy {
	case "", v1alpha1.ServicesAll, v1alpha1.ServicesNone:
		return policy, nil, nil
	}
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if len(validation.ValidateNamespaceName(name, false)) > 0 || name == "all" || name == "none" {
			return "", nil, usageError{fmt.Errorf("%s %s: %q is no namespace here: choose All or None, or name namespaces with commas", flag, value, name)}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > maxNamespaces {
		return "", nil, usageError{fmt.Errorf("%s lists %d namespaces but at most %d are allowed: choose All", flag, len(names), maxNamespaces)}
	}
	return v1alpha1.ServicesSelected, names, nil
}

// maxTransit is how many neighbors an object takes.
const maxTransit = 64

// neighborNames reads a list of local names, or the words all and none.
func neighborNames(flag, value string) ([]string, error) {
	switch value {
	case "all", peering.EveryNeighbor:
		return []string{peering.EveryNeighbor}, nil
	case "none":
		return []string{}, nil
	}
	names := []string{}
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if name == "all" || name == "none" || name == peering.EveryNeighbor {
			return nil, usageError{fmt.Errorf("%s %s: %s stands alone, not in a list", flag, value, name)}
		}
		if len(name) > 40 || len(validation.NameIsDNSSubdomain(name, false)) > 0 {
			return nil, usageError{fmt.Errorf("%s %s: %q is no name of a ForeignCluster: give names as `weftctl access` lists them, or all, or none", flag, value, name)}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > maxTransit {
		return nil, usageError{fmt.Errorf("%s lists %d clusters but at most %d are allowed: give all", flag, len(names), maxTransit)}
	}
	return names, nil
}
