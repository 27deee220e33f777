package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/tools/chart"
)

func newVersion(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of weftctl and of the chart in it",
		Args:  arguments(cobra.NoArgs, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			version, err := chart.Version()
			if err != nil {
				return err
			}
			return env.print(map[string]string{"version": version}, func(w io.Writer) { fmt.Fprintln(w, version) })
		},
	}
}
