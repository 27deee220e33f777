package channel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// farIdentity begins the error of a pin that does not hold.
const farIdentity = "the far end has identity"

// attempt is one of our gateways (by turn) and one route.
type attempt struct {
	route Route
	turn  int
}

// turn returns the attempt of a round: their gateways take turns in the inner
// loop, ours in the outer.
func turn(routes []Route, round int) attempt {
	return attempt{route: routes[round%len(routes)], turn: round / len(routes)}
}

// allowance bounds the time of an attempt: until there is a byte stream, and
// until the far end has greeted.
type allowance struct{ dial, whole time.Duration }

// dial opens a session over a route and stays in it until it ends. It returns
// why there was none, or nil if there was one.
func (p *peer) dial(ctx context.Context, a attempt, within allowance) error {
	o := p.manager.options
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The stream lives as long as the session; only its opening is bounded.
	deadline := time.Now().Add(within.whole)
	dialing, stop := context.WithTimeout(ctx, within.dial)
	defer stop()
	conn, err := o.Dialer.Dial(dialing, a.route, a.turn)
	if err != nil {
		return err
	}
	client, err := p.client(conn, a.route.Target)
	if err != nil {
		conn.Close()
		return err
	}
	defer client.Close()
	s, err := greet(ctx, cancel, client, min(time.Until(deadline), o.Timing.Attempt))
	if err != nil {
		return explain(err, a.route)
	}
	session := newSession(p, s, true)
	session.route = a.route
	if !p.adopt(session) {
		return nil // the other end's stream stands
	}
	o.Log.Info("peer channel is up", "peer", p.id, "dialed", true, "throughHub", a.route.Hub.IsValid())
	err = session.run(ctx)
	o.Log.Info("peer channel ended", "peer", p.id, "reason", err)
	return nil
}

// greet opens the stream and exchanges greetings, or cancels ctx.
func greet(ctx context.Context, cancel context.CancelFunc, client *grpc.ClientConn, patience time.Duration) (stream, error) {
	timer := time.AfterFunc(patience, cancel)
	s, err := channelv1.NewChannelClient(client).Exchange(ctx)
	if err == nil {
		err = s.Send(hello())
	}
	if err == nil {
		err = awaitHello(s, patience)
	}
	if !timer.Stop() && err == nil {
		err = fmt.Errorf("no greeting within %s", patience)
	}
	return s, err
}

// client speaks gRPC over one connection that is there already. A second
// connection is never made: a new attempt chooses its gateways anew.
func (p *peer) client(conn net.Conn, target netip.Addr) (*grpc.ClientConn, error) {
	o := p.manager.options
	config := identity.PinnedConfig(o.Certificate, func(id v1alpha1.Identity) error {
		if id != p.id {
			return fmt.Errorf("%s %s, not %s", farIdentity, id, p.id)
		}
		return nil
	})
	var used atomic.Bool
	client, err := grpc.NewClient("passthrough:///"+netip.AddrPortFrom(target, v1alpha1.ChannelPort).String(),
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errors.New("the connection is over")
			}
			return conn, nil
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: o.Timing.Keepalive, Timeout: o.Timing.KeepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithNoProxy(),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the peer channel: %w", err)
	}
	return client, nil
}

// explain turns gRPC's error into a sentence for a condition. A far end that
// does not know our identity ends the connection with a TLS alert, of which
// often no more than a broken connection is seen; a hub that does not forward
// ends it likewise.
func explain(err error, route Route) error {
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return errors.New(clip(err.Error()))
	case strings.Contains(s.Message(), farIdentity):
		return errors.New(clip(s.Message()))
	case s.Code() == codes.Unavailable && route.Hub.IsValid():
		return fmt.Errorf("the connection ended before a greeting (%s): does the hub forward between the two clusters, and does the far end have a ForeignCluster with our record?", clip(s.Message()))
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("the far end ended the connection before it greeted (%s): does it have a ForeignCluster with our record?", clip(s.Message()))
	}
	return errors.New(clip(s.Message()))
}
