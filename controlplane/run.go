// Package controlplane is weft-controller: it turns what people say of the
// fabric (FabricConfig, ForeignCluster) and what neighbors say over the peer
// channel into what agents need (FabricNode, Neighbor). It never sees a packet,
// and nothing that it has made is withdrawn because it is away.
package controlplane

import (
	"context"
	"log/slog"
)

// Options of Run.
type Options struct {
	// Kubeconfig names a file; empty means the pod's service account.
	Kubeconfig string
	// Namespace of Weft's Secrets and of the leader's Lease.
	Namespace string
	// ChannelBind is the TCP address that takes peer channels.
	ChannelBind string
	// PodIP is the address under which agents reach ChannelBind's port.
	PodIP string
	// MetricsBind and HealthBind are TCP addresses; "0" serves nothing.
	MetricsBind string
	HealthBind  string
	Log         *slog.Logger
}

// Run the controller until ctx ends.
func Run(ctx context.Context, o Options) error {
	o.Log.Info("starting", "namespace", o.Namespace)
	<-ctx.Done()
	return nil
}
