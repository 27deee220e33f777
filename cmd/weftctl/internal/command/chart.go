package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/weft-fabric/weft/tools/chart"
)

func newChart(env *environment) *cobra.Command {
	var directory string
	cmd := &cobra.Command{
		Use:   "chart",
		Short: "Write the embedded Helm chart to a file, for use with Helm",
		Args:  arguments(cobra.NoArgs, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			loaded, err := chart.Load()
			if err != nil {
				return err
			}
			file, err := chartutil.Save(loaded, directory)
			if err != nil {
				return fmt.Errorf("write chart to %s: %w", directory, err)
			}
			return env.print(map[string]string{"file": file}, func(w io.Writer) { fmt.Fprintln(w, file) })
		},
	}
	cmd.Flags().StringVar(&directory, "directory", ".", "folder to write the package to")
	return cmd
}
