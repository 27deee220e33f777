package channel

import (
	"errors"
	"fmt"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// MaxReachables is how many clusters may be reached through one peer.
	MaxReachables = 64
	// maxBehind bounds what the networks of all clusters behind one peer take from
	// our pools.
	maxBehind = 2 * MaxAddresses
)

// Reachable is a cluster that the receiver may reach through the sender.
type Reachable struct {
	// Record is the cluster's own, signed by it.
	Record   string
	Networks []Network
	// MTU in bytes of the way from the sender on, 0: not known yet.
	MTU int32
}

func (r Reachable) encode() *channelv1.Reachable {
	return &channelv1.Reachable{Record: r.Record, Networks: each(r.Networks, Network.encode), Mtu: uint32(r.MTU)}
}

// decodeReachables leaves out the clusters of which the peer tells nonsense. One
// that it told well of before stands as it was.
func (d *decoded) decodeReachables(in []*channelv1.Reachable, from v1alpha1.Identity, last []Reachable) ([]Reachable, error) {
	if len(in) > MaxReachables {
		return nil, fmt.Errorf("%d clusters are said to be reached through the peer; at most %d are allowed", len(in), MaxReachables)
	}
	s := newSelection(last, Reachable.key)
	for i, r := range in {
		name := fmt.Sprintf("cluster %d of those reached through it", i+1)
		item, id, err := decodeReachable(r)
		if id != "" {
			name = fmt.Sprintf("the cluster with identity %s", id)
		}
		if err == nil && id == from {
			err = errors.New("it is the peer itself")
		}
		if all := behind(s.taken) + addresses(item.Networks); err == nil && all > maxBehind {
			err = fmt.Errorf("with it, the clusters behind the peer have %d addresses together; at most %d are allowed", all, maxBehind)
		}
		s.add(name, string(id), item, err)
	}
	d.leftOut = append(d.leftOut, s.leftOut...)
	return s.taken, nil
}

// key of a good reachable: the identity.
func (r Reachable) key() string {
	record, err := identity.ParseRecord(r.Record)
	if err != nil {
		return ""
	}
	return string(record.Identity())
}

// behind is how many addresses the networks of clusters have together.
func behind(clusters []Reachable) uint64 {
	sum := uint64(0)
	for _, c := range clusters {
		sum += addresses(c.Networks)
	}
	return sum
}

// decodeReachable returns the identity also with an error, if the record is
// good.
func decodeReachable(in *channelv1.Reachable) (Reachable, v1alpha1.Identity, error) {
	record, err := identity.ParseRecord(in.GetRecord())
	if err != nil {
		return Reachable{}, "", err
	}
	out := Reachable{Record: in.GetRecord()}
	if out.Networks, err = decodeNetworks(in.GetNetworks()); err == nil {
		out.MTU, err = decodeMTU(in.GetMtu())
	}
	return out, record.Identity(), err
}
