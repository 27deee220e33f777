// Package channel is the peer channel: one authenticated stream per neighbor,
// over which the two controllers tell each other their records, networks, wire
// prefixes and MTU, the clusters that may be reached through them, and whom they
// introduce.
//
// What a peer sends is outside input. It is bounded and validated before anyone
// else sees it; what is refused changes nothing, and no peer can hold up
// another.
package channel

import (
	"fmt"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// minMTU is the least that IPv4 hosts must take (RFC 791, 3.2: 576), maxMTU
	// what fits an IPv4 total length.
	minMTU, maxMTU = 576, 65535
	// maxOrder bounds epoch and serial, so that there is always a later one.
	maxOrder = 1 << 62
)

// Snapshot is what one end says. Nil parts (and an empty record, a zero MTU)
// are not known; empty ones are known to be empty. A receiver refuses a snapshot
// whose lists are longer than MaxNetworks, MaxOffers, MaxReachables,
// MaxIntroductions and MaxReports.
type Snapshot struct {
	Record   string
	Networks []Network
	Offers   []Offer
	MTU      int32
	// Reachables may be reached through the sender.
	Reachables []Reachable
	// Introductions that the sender makes, and its Reports on the receiver's.
	Introductions []Introduction
	Reports       []Report
	// OffDirect: whether the sender sends nothing over the direct link any more.
	OffDirect OffDirect
}

// OffDirect says whether a side has left the direct link, and why.
type OffDirect string

const (
	// Leaving: it has, of itself, or has no such link.
	Leaving OffDirect = "Leaving"
	// Following: it has, because the other side leaves. Nobody follows a follower.
	Following OffDirect = "Following"
)

var offDirects = map[OffDirect]channelv1.Snapshot_OffDirect{
	Leaving:   channelv1.Snapshot_OFF_DIRECT_LEAVING,
	Following: channelv1.Snapshot_OFF_DIRECT_FOLLOWING,
}

// decodeOffDirect takes a value of a later release for none.
func decodeOffDirect(in channelv1.Snapshot_OffDirect) OffDirect {
	for value, wire := range offDirects {
		if wire == in {
			return value
		}
	}
	return ""
}

// merge returns newer with the parts that it does not know taken from s.
func (s Snapshot) merge(newer Snapshot) Snapshot {
	if newer.Record == "" {
		newer.Record = s.Record
	}
	if newer.Networks == nil {
		newer.Networks = s.Networks
	}
	if newer.Offers == nil {
		newer.Offers = s.Offers
	}
	if newer.MTU == 0 {
		newer.MTU = s.MTU
	}
	if newer.Reachables == nil {
		newer.Reachables = s.Reachables
	}
	if newer.Introductions == nil {
		newer.Introductions = s.Introductions
	}
	if newer.Reports == nil {
		newer.Reports = s.Reports
	}
	return newer
}

// encode turns the snapshot into its wire form.
func (s Snapshot) encode(epoch, serial uint64) *channelv1.Snapshot {
	out := &channelv1.Snapshot{Epoch: epoch, Serial: serial, Mtu: uint32(s.MTU), OffDirect: offDirects[s.OffDirect]}
	if s.Record != "" {
		out.Record = &s.Record
	}
	if s.Networks != nil {
		out.Networks = &channelv1.Networks{Networks: each(s.Networks, Network.encode)}
	}
	if s.Offers != nil {
		out.Offers = &channelv1.Offers{Offers: each(s.Offers, Offer.encode)}
	}
	if s.Reachables != nil {
		out.Reachables = &channelv1.Reachables{Reachables: each(s.Reachables, Reachable.encode)}
	}
	if s.Introductions != nil {
		out.Introductions = &channelv1.Introductions{Introductions: each(s.Introductions, Introduction.encode)}
	}
	if s.Reports != nil {
		out.Reports = &channelv1.Reports{Reports: each(s.Reports, Report.encode)}
	}
	return out
}

// each returns f of every item.
func each[T, U any](items []T, f func(T) U) []U {
	out := make([]U, 0, len(items))
	for _, item := range items {
		out = append(out, f(item))
	}
	return out
}

// decoded is a peer's snapshot, and one sentence for each item that was left
// out of it.
type decoded struct {
	Snapshot
	leftOut []string
}

// decode validates a peer's snapshot. The error is one sentence that names the
// offending item; it refuses all of the snapshot. A bad item that concerns a
// third cluster is left out instead, and stands as last, the peer's snapshot
// before, has it.
func decode(in *channelv1.Snapshot, from v1alpha1.Identity, last Snapshot) (decoded, error) {
	if in.GetEpoch() >= maxOrder || in.GetSerial() >= maxOrder {
		return decoded{}, fmt.Errorf("epoch %d or serial %d is beyond any time", in.GetEpoch(), in.GetSerial())
	}
	mtu, err := decodeMTU(in.GetMtu())
	if err != nil {
		return decoded{}, err
	}
	out := decoded{Snapshot: Snapshot{MTU: mtu, OffDirect: decodeOffDirect(in.GetOffDirect())}}
	if err := out.decodeOwn(in, from); err != nil {
		return decoded{}, err
	}
	if err := out.decodeOthers(in, from, last); err != nil {
		return decoded{}, err
	}
	return out, nil
}

// decodeOwn takes what the peer says of itself.
func (d *decoded) decodeOwn(in *channelv1.Snapshot, from v1alpha1.Identity) (err error) {
	if in.Record != nil {
		record, err := identity.ParseRecord(in.GetRecord())
		if err != nil {
			return err
		}
		if record.Identity() != from {
			return fmt.Errorf("the record belongs to identity %s, not to the peer that sent it", record.Identity())
		}
		d.Record = in.GetRecord()
	}
	if in.Networks != nil {
		if d.Networks, err = decodeNetworks(in.GetNetworks().GetNetworks()); err != nil {
			return err
		}
	}
	if in.Offers != nil {
		d.Offers, err = decodeOffers(in.GetOffers().GetOffers())
	}
	return err
}

// decodeOthers takes what the peer says of third clusters.
func (d *decoded) decodeOthers(in *channelv1.Snapshot, from v1alpha1.Identity, last Snapshot) (err error) {
	if in.Reachables != nil {
		if d.Reachables, err = d.decodeReachables(in.GetReachables().GetReachables(), from, last.Reachables); err != nil {
			return err
		}
	}
	if in.Introductions != nil {
		if d.Introductions, err = d.decodeIntroductions(in.GetIntroductions().GetIntroductions(), last.Introductions); err != nil {
			return err
		}
	}
	if in.Reports != nil {
		d.Reports, err = d.decodeReports(in.GetReports().GetReports(), last.Reports)
	}
	return err
}

// decodeMTU accepts 0, which is not known.
func decodeMTU(in uint32) (int32, error) {
	if in != 0 && (in < minMTU || in > maxMTU) {
		return 0, fmt.Errorf("an MTU of %d bytes is not within %d to %d", in, minMTU, maxMTU)
	}
	return int32(in), nil
}
