package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

func newRecord(env *environment) *cobra.Command {
	var name, pods string
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Print the ForeignCluster that makes this cluster known to another",
		Long: `Prints the object that the other side applies, to know this cluster without anybody having access to both. It holds the
record that this cluster signed, and nothing secret. The two are peers once each has applied the other's.

What access it grants is the other side's decision: read it there before applying. It grants no services; for these,
` + "`weftctl access NAME --export-services All --import-services All`" + ` follows there.`,
		Example: `  weftctl record --context berlin > berlin.yaml
  kubectl --context milan apply -f berlin.yaml`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			access, err := choice("--pods", pods, v1alpha1.PodAccessAll, v1alpha1.PodAccessNone)
			if err != nil {
				return err
			}
			c, err := kube.Connect(cmd.Context(), env.access)
			if err != nil {
				return err
			}
			self, err := peering.ReadSelf(cmd.Context(), c)
			if err != nil {
				return err
			}
			if name == "" {
				name = string(self.ClusterID)
			}
			object := self.ForeignCluster(name, v1alpha1.AccessSpec{Pods: access}).Object
			return env.print(object, func(w io.Writer) {
				fmt.Fprintf(w, "# Cluster %s in its own words. spec.access says what it may do in yours; pods: which flows it may open, All or None.\n", self.ClusterID)
				data, _ := yaml.Marshal(object) // plain maps and strings
				_, _ = w.Write(data)
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "local name there (default this cluster's ID)")
	cmd.Flags().StringVar(&pods, "pods", string(v1alpha1.PodAccessAll), "pods there that this cluster may open flows to, as written into it: All or None")
	return cmd
}
