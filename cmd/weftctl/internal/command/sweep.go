package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"
)

// newSweep is what the DaemonSet weft-sweep runs; it is no command for people.
func newSweep() *cobra.Command {
	var hold bool
	var ifEmpty []string
	cmd := &cobra.Command{
		Use:    "sweep FOLDER...",
		Short:  "Remove folders from the node (used by uninstall)",
		Hidden: true,
		RunE: func(cmd *cobra.Command, folders []string) error {
			for _, folder := range folders {
				if err := settled(os.RemoveAll(folder)); err != nil {
					return fmt.Errorf("remove folder: %w", err)
				}
			}
			for _, folder := range ifEmpty {
				if err := settled(os.Remove(folder)); err != nil {
					return fmt.Errorf("remove empty folder: %w", err)
				}
			}
			if hold {
				<-cmd.Context().Done()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&hold, "hold", false, "then wait for a signal")
	cmd.Flags().StringSliceVar(&ifEmpty, "if-empty", nil, "folder to remove if nothing is in it")
	return cmd
}

// settled forgives what is no failure: a folder that is gone, that others use
// (not empty), or that is a mount point, which ends with its mount.
func settled(err error) error {
	for _, fine := range []error{os.ErrNotExist, syscall.ENOTEMPTY, syscall.EBUSY} {
		if errors.Is(err, fine) {
			return nil
		}
	}
	return err
}
