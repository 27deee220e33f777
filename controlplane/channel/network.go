package channel

import (
	"fmt"
	"net/netip"
	"regexp"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// MaxNetworks is how many CIDRs a peer may export.
	MaxNetworks = 16
	// minPrefix and maxPrefix bound the length of a network, in bits.
	minPrefix, maxPrefix = 8, 30
	// MaxAddresses bounds what the networks of a peer take from our pools: a /8
	// of pods, and a node network beside it.
	MaxAddresses = 1<<24 + 1<<16
)

var networkName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$`)

// Network is one CIDR of a network, by its real addresses.
type Network struct {
	Name string
	Kind v1alpha1.NetworkKind
	CIDR netip.Prefix
}

var kinds = map[v1alpha1.NetworkKind]channelv1.Network_Kind{
	v1alpha1.NetworkPod:  channelv1.Network_KIND_POD,
	v1alpha1.NetworkNode: channelv1.Network_KIND_NODE,
}

func (n Network) encode() *channelv1.Network {
	return &channelv1.Network{Name: n.Name, Kind: kinds[n.Kind], Cidrs: []string{n.CIDR.String()}}
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

// addresses is how many addresses networks have together.
func addresses(networks []Network) uint64 {
	sum := uint64(0)
	for _, n := range networks {
		sum += 1 << (32 - n.CIDR.Bits())
	}
	return sum
}

func decodeKind(in channelv1.Network_Kind) (v1alpha1.NetworkKind, error) {
	for kind, wire := range kinds {
		if wire == in {
			return kind, nil
		}
	}
	return "", fmt.Errorf("kind %d is not known to this release", in)
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
