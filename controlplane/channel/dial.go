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

// dialLoop keeps trying to have a session with the peer, until ctx ends.
func (p *peer) dialLoop(ctx context.Context) {
	timing := p.manager.options.Timing
	lower := p.manager.options.Self < p.id
	backoff := timing.BackoffMin
	if !lower && !p.pause(ctx, timing.HigherWaits) {
		return
	}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		if p.hasSession() {
			select {
			case <-ctx.Done():
				return
			case <-p.ended:
			}
			backoff = timing.BackoffMin
			if !lower && !p.pause(ctx, timing.HigherWaits) {
				return
			}
			continue
		}
		began := time.Now()
		if err := p.dial(ctx, attempt); err != nil {
			p.failed(err)
		}
		if time.Since(began) > timing.BackoffMax {
			backoff = timing.BackoffMin // it was up, or the time was spent already
		}
		if !p.pause(ctx, backoff) {
			return
		}
		backoff = min(2*backoff, timing.BackoffMax)
	}
}

// pause waits, but not longer than until the peer's addresses change. False if
// ctx ended.
func (p *peer) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-p.poked:
	}
	return true
}

func (p *peer) hasSession() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current != nil
}

// dial opens a session to one of the peer's gateways and stays in it until it
// ends. It returns why there was none, or nil if there was one.
func (p *peer) dial(ctx context.Context, attempt int) error {
	p.mu.Lock()
	routes := p.config.Routes
	p.mu.Unlock()
	if len(routes) == 0 {
		return errors.New("the peer's record names no gateway")
	}
	o := p.manager.options
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialing, stop := context.WithTimeout(ctx, o.Timing.Attempt)
	defer stop()
	// Our gateways take turns in the inner, theirs in the outer loop.
	route := routes[attempt%len(routes)]
	conn, err := o.Dialer.Dial(dialing, route, attempt/len(routes))
	if err != nil {
		return err
	}
	client, err := p.client(conn, route.Target)
	if err != nil {
		conn.Close()
		return err
	}
	defer client.Close()
	// The stream lives as long as the session; only its opening is bounded.
	timer := time.AfterFunc(o.Timing.Attempt, cancel)
	s, err := channelv1.NewChannelClient(client).Exchange(ctx)
	if err == nil {
		err = s.Send(hello())
	}
	if err == nil {
		err = awaitHello(s, o.Timing.Attempt)
	}
	if !timer.Stop() && err == nil {
		err = fmt.Errorf("no greeting within %s", o.Timing.Attempt)
	}
	if err != nil {
		return explain(err)
	}
	session := newSession(p, s, true)
	if !p.adopt(session) {
		return nil // the other end's stream stands
	}
	o.Log.Info("peer channel is up", "peer", p.id, "dialed", true)
	err = session.run(ctx)
	o.Log.Info("peer channel ended", "peer", p.id, "reason", err)
	return nil
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
// often no more than a broken connection is seen.
func explain(err error) error {
	s, ok := status.FromError(err)
	switch {
	case !ok:
		return errors.New(clip(err.Error()))
	case strings.Contains(s.Message(), farIdentity):
		return errors.New(clip(s.Message()))
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("the far end ended the connection before it greeted (%s): does it have a ForeignCluster with our record?", clip(s.Message()))
	}
	return errors.New(clip(s.Message()))
}
