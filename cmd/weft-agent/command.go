package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/weft-fabric/weft/dataplane/agent"
	"github.com/weft-fabric/weft/dataplane/apply"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// planTimeout is how long `weft-agent plan` waits for the objects.
const planTimeout = 30 * time.Second

func command() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:          "weft-agent",
		Short:        "Weft's data plane on a node",
		Long:         "weft-agent follows the cluster's fabric objects and makes this node what they say.\nWhat it makes stays when it ends; `weft-agent cleanup` removes it.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.log()
			if err != nil {
				return err
			}
			options, err := o.agentOptions(log)
			if err != nil {
				return err
			}
			return agent.Run(cmd.Context(), options)
		},
	}
	o.register(root.PersistentFlags())
	root.AddCommand(planCommand(o), cleanupCommand(o))
	return root
}

func planCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "plan",
		Short: "Print as JSON what this node should have, and change nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.log()
			if err != nil {
				return err
			}
			options, err := o.agentOptions(log)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), planTimeout)
			defer cancel()
			p, problems, err := planOnce(ctx, options)
			if err != nil {
				return err
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			out.SetIndent("", "  ")
			return out.Encode(struct {
				Plan     plan.Plan      `json:"plan"`
				Problems []plan.Problem `json:"problems,omitempty"`
			}{p, problems})
		},
	}
}

// planOnce follows the source until it has synced, and plans.
func planOnce(ctx context.Context, o agent.Options) (p plan.Plan, problems []plan.Problem, err error) {
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return o.Source.Run(ctx) })
	group.Go(func() error {
		defer cancel()
		p, problems, err = agent.Plan(ctx, o)
		return err
	})
	if err := group.Wait(); err != nil {
		return p, nil, err
	}
	return p, problems, nil
}

func cleanupCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Remove all that Weft made on this node, its keys included",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := o.log()
			if err != nil {
				return err
			}
			executor, err := apply.New(apply.Options{PinRoot: o.pinRoot, StateDir: o.stateDir, RunDir: o.runDir, Log: log})
			if err != nil {
				return fmt.Errorf("prepare executor: %w", err)
			}
			report, err := executor.Apply(cmd.Context(), plan.Plan{})
			for _, c := range report.Changes {
				fmt.Fprintln(cmd.OutOrStdout(), c)
			}
			if err == nil {
				err = executor.RemoveState()
			}
			return errors.Join(err, executor.Close())
		},
	}
}
