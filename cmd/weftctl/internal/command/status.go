package command

import "github.com/spf13/cobra"

func newStatus(env *environment) *cobra.Command { return &cobra.Command{Use: "status"} }
