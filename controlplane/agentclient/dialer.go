package agentclient

import (
	"context"
	"errors"
	"net"

	"github.com/weft-fabric/weft/controlplane/channel"
)

// ChannelDialer opens peer channels through the cluster's own gateways, which
// take turns from attempt to attempt.
type ChannelDialer struct {
	Client *Client
	// Gateways returns the agents of the gateways as they are now.
	Gateways func(context.Context) ([]Agent, error)
}

// Dial implements channel.Dialer.
func (d *ChannelDialer) Dial(ctx context.Context, route channel.Route, attempt int) (net.Conn, error) {
	gateways, err := d.Gateways(ctx)
	if err != nil {
		return nil, err
	}
	if len(gateways) == 0 {
		return nil, errors.New("no gateway's agent of this cluster can be reached yet")
	}
	return d.Client.Dial(ctx, gateways[attempt%len(gateways)], route)
}
