// Package channel is the peer channel: one authenticated stream per neighbor,
// over which the two controllers tell each other their records, networks, wire
// prefixes and MTU.
//
// What a peer sends is outside input. It is bounded and validated before anyone
// else sees it; what is refused changes nothing, and no peer can hold up
// another.
package channel

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Bounds of a snapshot.
const (
	// MaxNetworks is how many CIDRs a peer may export.
	MaxNetworks = 16
	// maxOffers is how many wire prefixes a peer may offer: every network over
	// every pair of gateways.
	maxOffers = MaxNetworks * identity.MaxGateways * identity.MaxGateways
	// minPrefix and maxPrefix bound the length of a network, in bits.
	minPrefix, maxPrefix = 8, 30
	// MaxAddresses bounds what the networks of a peer take from our pools: a /8
	// of pods, and a node network beside it.
	MaxAddresses = 1<<24 + 1<<16
	// minMTU is the least that IPv4 hosts must take (RFC 791, 3.2: 576), maxMTU
	// what fits an IPv4 total length.
	minMTU, maxMTU = 576, 65535
	// maxOrder bounds epoch and serial, so that there is always a later one.
	maxOrder = 1 << 62
)

var networkName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$`)

// Network is one CIDR of a network, by its real addresses.
type Network struct {
	Name string
	Kind v1alpha1.NetworkKind
	CIDR netip.Prefix
}

// Offer says under which wire prefix a network of the receiver must leave the
// receiver's gateway towards the sender's.
type Offer struct {
	ReceiverGateway int32
	SenderGateway   int32
	// Origin is empty for the receiver's own network.
	Origin  v1alpha1.Identity
	Network string
	CIDR    netip.Prefix
	Wire    netip.Prefix
}

// Reachable is a cluster that the receiver may reach through the sender.
type Reachable struct {
	// Record is the cluster's own, signed by it.
	Record   string
	Networks []Network
	// MTU in bytes of the way from the sender on.
	MTU int32
}

// Introduction asks the receiver to peer directly with another cluster.
type Introduction struct {
	// Connection and UID of the ForeignClusterConnection at the sender.
	Connection string
	UID        string
	// Record of the other cluster, signed by it. It is text that nobody has checked:
	// a bad one is answered by a Report, not by refusing the snapshot.
	Record string
	Mode   v1alpha1.ConnectionMode
	// MTU in bytes, 0: none asked for. Lease 0: for ever.
	MTU   int32
	Lease time.Duration
}

// States of a Report beside those of v1alpha1.IntroductionState.
const (
	ReportDenied        = "Denied"
	ReportInvalidRecord = "InvalidRecord"
)

// Report says what became of an introduction at the cluster that sends it.
type Report struct {
	UID string
	// State is a v1alpha1.IntroductionState or one of the above.
	State string
	// Message is one sentence with cause and remedy, empty where all is well.
	Message string
	// PodCIDR is the sender's own, RemappedPodCIDR its view of the other's pods.
	PodCIDR, RemappedPodCIDR v1alpha1.CIDR
	// ActivePath is PathDirect, PathHub or PathNone.
	ActivePath string
	DirectUp   bool
	// RTTs in microseconds, smoothed; 0: not measured.
	DirectRTT, HubRTT  int64
	DirectLossPermille int32
	MTU                int32
	// Since is when ActivePath last changed, in whole seconds.
	Since time.Time
}

// Active paths of a Report.
const (
	PathDirect = "Direct"
	PathHub    = "Hub"
	PathNone   = "None"
)

// Snapshot is what one end says. Nil parts (and an empty record, a zero MTU)
// are not known; empty ones are known to be empty.
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
	// OffDirect: the sender sends nothing over the direct link any more.
	OffDirect bool
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
	return newer
}

// encode turns the snapshot into its wire form.
func (s Snapshot) encode(epoch, serial uint64) *channelv1.Snapshot {
	out := &channelv1.Snapshot{Epoch: epoch, Serial: serial, Mtu: uint32(s.MTU)}
	if s.Record != "" {
		out.Record = &s.Record
	}
	if s.Networks != nil {
		out.Networks = &channelv1.Networks{}
		for _, n := range s.Networks {
			out.Networks.Networks = append(out.Networks.Networks, &channelv1.Network{
				Name: n.Name, Kind: kinds[n.Kind], Cidrs: []string{n.CIDR.String()},
			})
		}
	}
	if s.Offers != nil {
		out.Offers = &channelv1.Offers{}
		for _, o := range s.Offers {
			out.Offers.Offers = append(out.Offers.Offers, &channelv1.Offer{
				ReceiverGateway: uint32(o.ReceiverGateway), SenderGateway: uint32(o.SenderGateway),
				Origin: string(o.Origin), Network: o.Network, Cidr: o.CIDR.String(), Wire: o.Wire.String(),
			})
		}
	}
	return out
}

var kinds = map[v1alpha1.NetworkKind]channelv1.Network_Kind{
	v1alpha1.NetworkPod:  channelv1.Network_KIND_POD,
	v1alpha1.NetworkNode: channelv1.Network_KIND_NODE,
}

// decode validates a peer's snapshot. The error is one sentence that names the
// offending item.
func decode(in *channelv1.Snapshot, from v1alpha1.Identity) (Snapshot, error) {
	if in.GetEpoch() >= maxOrder || in.GetSerial() >= maxOrder {
		return Snapshot{}, fmt.Errorf("epoch %d or serial %d is beyond any time", in.GetEpoch(), in.GetSerial())
	}
	var out Snapshot
	var err error
	if in.Record != nil {
		record, err := identity.ParseRecord(in.GetRecord())
		if err != nil {
			return Snapshot{}, err
		}
		if record.Identity() != from {
			return Snapshot{}, fmt.Errorf("the record belongs to identity %s, not to the peer that sent it", record.Identity())
		}
		out.Record = in.GetRecord()
	}
	if in.Networks != nil {
		if out.Networks, err = decodeNetworks(in.GetNetworks().GetNetworks()); err != nil {
			return Snapshot{}, err
		}
	}
	if in.Offers != nil {
		if out.Offers, err = decodeOffers(in.GetOffers().GetOffers()); err != nil {
			return Snapshot{}, err
		}
	}
	if mtu := in.GetMtu(); mtu != 0 && (mtu < minMTU || mtu > maxMTU) {
		return Snapshot{}, fmt.Errorf("an MTU of %d bytes is not within %d to %d", mtu, minMTU, maxMTU)
	}
	out.MTU = int32(in.GetMtu())
	return out, nil
}

func decodeNetworks(in []*channelv1.Network) ([]Network, error) {
	if len(in) > MaxNetworks {
		return nil, fmt.Errorf("%d networks are exported; at most %d are allowed", len(in), MaxNetworks)
	}
	out := []Network{}
	addresses := uint64(0)
	for _, n := range in {
		if !networkName.MatchString(n.GetName()) {
			return nil, fmt.Errorf("network name %.40q must be 1 to 30 characters: a lower-case letter, then lower-case letters, digits and hyphens", n.GetName())
		}
		kind, err := decodeKind(n.GetKind())
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", n.GetName(), err)
		}
		for _, text := range n.GetCidrs() {
			if len(out) == MaxNetworks {
				return nil, fmt.Errorf("the networks have more than %d CIDRs", MaxNetworks)
			}
			cidr, err := decodePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("network %s: %w", n.GetName(), err)
			}
			for _, other := range out {
				if other.CIDR.Overlaps(cidr) {
					return nil, fmt.Errorf("network %s: %s overlaps %s of network %s", n.GetName(), cidr, other.CIDR, other.Name)
				}
				if other.Name == n.GetName() && other.Kind != kind {
					return nil, fmt.Errorf("network %s is listed with two kinds", n.GetName())
				}
			}
			if addresses += 1 << (32 - cidr.Bits()); addresses > MaxAddresses {
				return nil, fmt.Errorf("network %s: with %s the networks have %d addresses together; at most %d are allowed", n.GetName(), cidr, addresses, MaxAddresses)
			}
			out = append(out, Network{Name: n.GetName(), Kind: kind, CIDR: cidr})
		}
	}
	return out, nil
}

func decodeKind(in channelv1.Network_Kind) (v1alpha1.NetworkKind, error) {
	for kind, wire := range kinds {
		if wire == in {
			return kind, nil
		}
	}
	return "", fmt.Errorf("kind %d is not known to this release", in)
}

func decodeOffers(in []*channelv1.Offer) ([]Offer, error) {
	if len(in) > maxOffers {
		return nil, fmt.Errorf("%d wire prefixes are offered; at most %d are allowed", len(in), maxOffers)
	}
	out := []Offer{}
	for _, o := range in {
		offer, err := decodeOffer(o)
		if err != nil {
			return nil, fmt.Errorf("the offer for network %.40q: %w", o.GetNetwork(), err)
		}
		out = append(out, offer)
	}
	if err := disjoint(out, func(o Offer) v1alpha1.Identity { return "" }, func(o Offer) netip.Prefix { return o.Wire }); err != nil {
		return nil, err
	}
	return out, disjoint(out, func(o Offer) v1alpha1.Identity { return o.Origin }, func(o Offer) netip.Prefix { return o.CIDR })
}

// disjoint checks that no two offers of one link and group have overlapping
// prefixes. Of prefixes in order of address and length, those that overlap are
// neighbors, so it costs no more than sorting.
func disjoint(offers []Offer, group func(Offer) v1alpha1.Identity, prefix func(Offer) netip.Prefix) error {
	sorted := slices.Clone(offers)
	place := func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.ReceiverGateway, b.ReceiverGateway), cmp.Compare(a.SenderGateway, b.SenderGateway), cmp.Compare(group(a), group(b)))
	}
	slices.SortFunc(sorted, func(a, b Offer) int {
		return cmp.Or(place(a, b), prefix(a).Addr().Compare(prefix(b).Addr()), cmp.Compare(prefix(a).Bits(), prefix(b).Bits()))
	})
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; place(a, b) == 0 && prefix(a).Overlaps(prefix(b)) {
			return fmt.Errorf("the offers %s for %s and %s for %s overlap on one link", b.Wire, b.CIDR, a.Wire, a.CIDR)
		}
	}
	return nil
}

func decodeOffer(in *channelv1.Offer) (Offer, error) {
	out := Offer{
		ReceiverGateway: int32(in.GetReceiverGateway()), SenderGateway: int32(in.GetSenderGateway()),
		Origin: v1alpha1.Identity(in.GetOrigin()), Network: in.GetNetwork(),
	}
	for _, id := range []uint32{in.GetReceiverGateway(), in.GetSenderGateway()} {
		if id < 1 || id > 255 {
			return Offer{}, fmt.Errorf("gateway id %d is not within 1 to 255", id)
		}
	}
	if len(out.Origin) > 52 || !networkName.MatchString(out.Network) {
		return Offer{}, fmt.Errorf("it names no network")
	}
	var err error
	if out.CIDR, err = decodePrefix(in.GetCidr()); err != nil {
		return Offer{}, err
	}
	if out.Wire, err = decodePrefix(in.GetWire()); err != nil {
		return Offer{}, err
	}
	if out.Wire.Bits() != out.CIDR.Bits() {
		return Offer{}, fmt.Errorf("wire prefix %s and network %s differ in length", out.Wire, out.CIDR)
	}
	return out, nil
}

func decodePrefix(text string) (netip.Prefix, error) {
	if len(text) > 43 {
		return netip.Prefix{}, fmt.Errorf("%.43q... is no CIDR", text)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q is no CIDR without host bits", text)
	}
	return p, CheckPrefix(p)
}

// CheckPrefix says in one sentence why no peer would take a prefix, ours
// included.
func CheckPrefix(p netip.Prefix) error {
	if !p.Addr().Is4() {
		return fmt.Errorf("%s is not IPv4, the only family of this release", p)
	}
	if p.Bits() < minPrefix || p.Bits() > maxPrefix {
		return fmt.Errorf("%s has a length of %d bits, which is not within %d to %d", p, p.Bits(), minPrefix, maxPrefix)
	}
	for _, never := range v1alpha1.NeverRouted() {
		if never.Overlaps(p) {
			return fmt.Errorf("%s lies in %s, which is never routed into a tunnel", p, never)
		}
	}
	return nil
}
