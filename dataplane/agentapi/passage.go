package agentapi

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Bounds of the channels that one agent splices. A pair of controllers needs one,
// and a second while one replaces the other.
const (
	// peerLimit is for one neighbor's gateway, behindLimit for each cluster whose
	// channels come through it beside its own, pairLimit for a pair of clusters that
	// this one forwards between.
	peerLimit   = 8
	behindLimit = 4
	pairLimit   = 8
	// totalLimit is for all channels of our own controller, transitLimit for all
	// that are forwarded.
	totalLimit   = 512
	transitLimit = 2048
)

// passage is the way of a channel through this gateway.
type passage struct {
	// from is the neighbor's gateway that dialed in, invalid if our controller did.
	from netip.Addr
	// to is the gateway that is dialed, invalid if our controller is. hub is the
	// neighbor's gateway through which it is reached, invalid if it is a neighbor's.
	to, hub netip.Addr
}

func (p passage) forwarded() bool { return p.from.IsValid() && p.to.IsValid() }

// group of channels that are bounded together.
type group struct {
	from, to netip.Addr
	pair     Pair
}

// permits says why a passage is not allowed.
func (s State) permits(p passage) error {
	if !s.ChannelAddress.IsValid() {
		return errors.New("this node is no gateway: ask a gateway's agent")
	}
	near, behind := []netip.Addr{p.from, p.to}, netip.Addr{}
	if p.hub.IsValid() {
		near, behind = []netip.Addr{p.hub}, p.to
	}
	for _, address := range near {
		if address.IsValid() && !slices.Contains(s.Peers, address) {
			return fmt.Errorf("%s is not the channel of a known neighbor", channelAt(address))
		}
	}
	if behind.IsValid() && (!channelAddresses.Contains(behind) || behind == p.hub || behind == s.ChannelAddress) {
		return fmt.Errorf("%s is not the channel of a cluster behind a hub", channelAt(behind))
	}
	if p.forwarded() {
		if _, ok := s.Transit.pair(p.from, p.to); !ok {
			return fmt.Errorf("there is no transit between %s and %s: name one in the other's ForeignCluster.spec.access.transit.neighbors", p.from, p.to)
		}
	}
	return nil
}

// bound returns the group that a permitted passage counts in, and how many the
// group may have.
func (s State) bound(p passage) (group, int) {
	switch {
	case p.forwarded():
		pair, _ := s.Transit.pair(p.from, p.to)
		return group{pair: pair}, pairLimit
	case p.from.IsValid():
		return group{from: p.from}, peerLimit + behindLimit*s.Transit.Behind[s.Transit.Clusters[p.from]]
	}
	return group{to: p.to}, peerLimit
}

// enter registers a splice, if its passage is allowed and there is room. The
// caller must leave it.
func (s *Server) enter(p passage) (*spliceEnd, error) {
	state, _ := s.current()
	if err := state.permits(p); err != nil {
		return nil, refusal{err}
	}
	g, most := state.bound(p)
	end, err := s.splices.enter(p, g, most)
	if err != nil {
		return nil, err
	}
	// A state that came between has either ended the splice, or is seen here.
	state, _ = s.current()
	if err := state.permits(p); err != nil {
		end.leave()
		return nil, refusal{err}
	}
	return end, nil
}

// refusal is the error of what is not allowed, and not only full.
type refusal struct{ error }
