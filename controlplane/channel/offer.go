package channel

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// ownOffers is every network of the receiver over every pair of gateways.
	ownOffers = MaxNetworks * identity.MaxGateways * identity.MaxGateways
	// MaxOffers is how many wire prefixes a peer may offer: as many again are for
	// the clusters behind the receiver, which is enough for MaxReachables clusters
	// of two networks each over 32 pairs of gateways.
	MaxOffers = 2 * ownOffers
)

var identityPattern = regexp.MustCompile(`^[a-z2-7]{52}$`)

// Offer says under which wire prefix a network of the receiver must leave the
// receiver's gateway towards the sender's.
type Offer struct {
	ReceiverGateway int32
	SenderGateway   int32
	// Origin is empty for the receiver's own network, else the identity of the
	// cluster behind the receiver whose network it is.
	Origin  v1alpha1.Identity
	Network string
	CIDR    netip.Prefix
	Wire    netip.Prefix
}

func (o Offer) encode() *channelv1.Offer {
	return &channelv1.Offer{
		ReceiverGateway: uint32(o.ReceiverGateway), SenderGateway: uint32(o.SenderGateway),
		Origin: string(o.Origin), Network: o.Network, Cidr: o.CIDR.String(), Wire: o.Wire.String(),
	}
}

func decodeOffers(in []*channelv1.Offer) ([]Offer, error) {
	if len(in) > MaxOffers {
		return nil, fmt.Errorf("%d wire prefixes are offered; at most %d are allowed", len(in), MaxOffers)
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
	if !networkName.MatchString(out.Network) {
		return Offer{}, errors.New("it names no network")
	}
	if out.Origin != "" && !identityPattern.MatchString(in.GetOrigin()) {
		return Offer{}, fmt.Errorf("its origin %.60q is no identity", in.GetOrigin())
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
