package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-fabric/weft/tools/demo/leftover"
	"github.com/weft-fabric/weft/tools/demo/testbed"
)

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove everything that the demo made; results in out/ stay",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := testbed.FindRoot()
			if err != nil {
				return err
			}
			lab := testbed.Lab{Root: root, Progress: &indenter{w: os.Stdout}}
			if _, err := os.Stat(lab.Program("lab")); err != nil {
				return fmt.Errorf("find %s: not built; run `make build` first", lab.Program("lab"))
			}
			release, err := testbed.Claim()
			if err != nil {
				return err
			}
			defer release()
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Minute)
			defer cancel()
			return lab.Down(ctx)
		},
	}
}

func snapshotCommand() *cobra.Command {
	var before string
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Print as JSON what a lab could leave behind, or what there is more than in an earlier snapshot",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			now, err := leftover.Take()
			if err != nil {
				return err
			}
			if before != "" {
				return compare(before, now)
			}
			encoder := json.NewEncoder(os.Stdout)
			encoder.SetIndent("", "  ")
			return encoder.Encode(now)
		},
	}
	cmd.Flags().StringVar(&before, "compare", "", "file with an earlier snapshot; fail if anything was added since")
	return cmd
}

func compare(path string, now leftover.Snapshot) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the earlier snapshot: %w", err)
	}
	var then leftover.Snapshot
	if err := json.Unmarshal(data, &then); err != nil {
		return fmt.Errorf("read the earlier snapshot %s: %w", path, err)
	}
	if added := leftover.Compare(then, now); len(added) > 0 {
		return errors.New("left behind:\n  " + strings.Join(added, "\n  "))
	}
	return nil
}
