package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/agentclient"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/fabric"
	"github.com/weft-fabric/weft/controlplane/identity"
	"github.com/weft-fabric/weft/controlplane/introduction"
	"github.com/weft-fabric/weft/controlplane/ipam"
	"github.com/weft-fabric/weft/controlplane/measure"
	"github.com/weft-fabric/weft/controlplane/nodes"
	"github.com/weft-fabric/weft/controlplane/peering"
	"github.com/weft-fabric/weft/controlplane/services"
)

// assemble wires the parts. All of them run on the leader only.
func assemble(mgr ctrl.Manager, o Options, self identity.Self, endpoint string) error {
	certificate, err := apiidentity.Certificate(self.Key)
	if err != nil {
		return err
	}
	agents := &agentclient.Client{Certificate: certificate}
	claims := ipam.APIStore{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient()}
	wakeup := &peering.Wakeup{}
	peers := &peering.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Claims: claims,
		Self: self.ID, Now: time.Now, Again: wakeup.Again,
	}
	introductions := &introduction.Wakeup{}
	poller := &measure.Poller{
		Gateways: measured(mgr.GetClient()), Ask: agents.Measurements, Interval: measure.Interval, Now: time.Now,
		Changed: func() { peers.All(); introductions.Measured() },
	}
	shared := services.New(mgr.GetClient(), self.ID, o.Log.With("part", "services"))
	channels := channel.New(channel.Options{
		Self: self.ID, Certificate: certificate, Timing: channel.DefaultTiming, Now: time.Now,
		Log:     o.Log.With("part", "channel"),
		Changed: func(id v1alpha1.Identity) { peers.ChannelChanged(id); introductions.ChannelChanged(id) },
		Dialer:  &agentclient.ChannelDialer{Client: agents, Gateways: gateways(mgr.GetClient())},

		ServicesChanged: shared.ChannelChanged,
	})
	shared.SetChannels(channels)
	peers.Channels, peers.View = channels, poller.View
	log := o.Log.With("part", "introduction")
	consumer := &introduction.Consumer{Client: mgr.GetClient(), Channels: channels, Again: peers.Again, Now: time.Now, Log: log}
	provider := &introduction.Provider{
		Client: mgr.GetClient(), Self: self.ID, Channels: channels, View: poller.View,
		OffDirect: peers.OffDirect, Again: peers.Again, Now: time.Now, Log: log,
	}
	peers.Introductions, peers.Reports = consumer.Introductions, provider.Reports

	nodeReconciler := &nodes.Reconciler{Client: mgr.GetClient(), Now: time.Now}
	fabricReconciler := &fabric.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Claims: claims,
		Self: self, ChannelEndpoint: endpoint, Now: time.Now,
	}
	if err := errors.Join(
		nodeReconciler.SetupWithManager(mgr),
		fabricReconciler.SetupWithManager(mgr),
		peers.SetupWithManager(mgr, wakeup),
		consumer.SetupWithManager(mgr, introductions),
		provider.SetupWithManager(mgr, introductions),
		mgr.Add(serve(channels, o.ChannelBind)),
		mgr.Add(manager.RunnableFunc(poller.Run)),
		mgr.Add(manager.RunnableFunc(shared.Start(mgr))),
	); err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	return nil
}

// serve listens for peer channels once this process leads.
func serve(channels *channel.Manager, bind string) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", bind)
		if err != nil {
			return fmt.Errorf("listen for peer channels: %w", err)
		}
		return channels.Run(ctx, listener)
	})
}

// gateways returns how the agents of the own gateways are reached.
func gateways(reader client.Reader) func(context.Context) ([]agentclient.Agent, error) {
	return func(ctx context.Context) ([]agentclient.Agent, error) {
		config, err := fabricConfig(ctx, reader)
		if err != nil || config == nil {
			return nil, err
		}
		var list v1alpha1.FabricNodeList
		if err := reader.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("list fabric nodes: %w", err)
		}
		var out []agentclient.Agent
		for _, a := range agentclient.Agents(list.Items, config.Spec.Ports.Agent) {
			if a.GatewayID != 0 {
				out = append(out, a)
			}
		}
		return out, nil
	}
}

// measured are the gateways while there is a neighbor, else none.
func measured(reader client.Reader) func(context.Context) ([]agentclient.Agent, error) {
	all := gateways(reader)
	return func(ctx context.Context) ([]agentclient.Agent, error) {
		var neighbors v1alpha1.NeighborList
		if err := reader.List(ctx, &neighbors); err != nil || len(neighbors.Items) == 0 {
			return nil, err
		}
		return all(ctx)
	}
}
