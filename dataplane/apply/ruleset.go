package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// ruleset is the desired table as data.
type ruleset struct {
	sets     []setSpec
	counters []string // named counters
	chains   []chainSpec
}

// setSpec is a set of addresses or ports whose elements follow the
// plan, or a dynamic one that rules fill.
type setSpec struct {
	name     string
	key      nftables.SetDatatype
	interval bool
	// dynamic sets are bounded in size and their elements expire.
	dynamic *dynamicSpec
	// elements: a single key, or the first and (exclusive) last of an interval.
	elements map[element]bool
}

// element is comparable: keys as strings of bytes in network order. An interval
// that reaches the end of the address space has no end.
type element struct{ start, end string }

type chainSpec struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority nftables.ChainPriority
	rules    []ruleSpec
}

// ruleSpec is one rule; the comment says what it is for.
type ruleSpec struct {
	comment string
	exprs   []expr.Any
}

// userData is the rule's comment with a fingerprint of its expressions, so that
// a rule in the kernel can be told from one of an earlier plan or version, or
// from one that somebody put in its place.
func (s ruleSpec) userData() ([]byte, error) {
	hash := sha256.New()
	for _, e := range s.exprs {
		content, err := expr.Marshal(byte(nftables.TableFamilyINet), e)
		if err != nil {
			return nil, fmt.Errorf("encode rule %q: %w", s.comment, err)
		}
		hash.Write(content)
	}
	text := fmt.Sprintf("%s [%s]", s.comment, hex.EncodeToString(hash.Sum(nil)[:6]))
	return userdata.AppendString(nil, userdata.TypeComment, text), nil
}

// Names of the sets.
const (
	setUnderlays   = "underlays"
	setOwnPods     = "own_pods"
	setOwnNodes    = "own_nodes"
	setForeign     = "foreign"
	setGranted     = "granted"
	setChannel     = "channel"
	setLanePorts   = "lane_ports"
	setFragments   = "outer_fragments"
	setInitiations = "initiations"
)

// planSets are the sets whose elements follow the plan.
func planSets(p plan.Plan) []setSpec {
	f := p.Firewall
	return []setSpec{
		{name: setUnderlays, key: nftables.TypeIPAddr, elements: addresses(f.Underlays, netip.Addr.Is4)},
		{name: setOwnPods, key: nftables.TypeIPAddr, interval: true, elements: intervals(f.OwnPods)},
		{name: setOwnNodes, key: nftables.TypeIPAddr, interval: true, elements: intervals(f.OwnNodes)},
		{name: setForeign, key: nftables.TypeIPAddr, interval: true, elements: intervals(f.Foreign)},
		{name: setGranted, key: nftables.TypeIPAddr, interval: true, elements: intervals(f.Granted)},
		{name: setChannel, key: nftables.TypeIP6Addr, elements: addresses(f.ChannelAddresses, netip.Addr.Is6)},
		{name: setLanePorts, key: nftables.TypeInetService, elements: ports(f.LanePorts)},
	}
}

func addresses(list []netip.Addr, fits func(netip.Addr) bool) map[element]bool {
	elements := map[element]bool{}
	for _, address := range list {
		if fits(address) {
			elements[element{start: string(address.AsSlice())}] = true
		}
	}
	return elements
}

func ports(list []uint16) map[element]bool {
	elements := map[element]bool{}
	for _, port := range list {
		elements[element{start: string([]byte{byte(port >> 8), byte(port)})}] = true
	}
	return elements
}

// intervals turns IPv4 prefixes into disjoint intervals: the kernel refuses
// overlapping ones, so a prefix inside another is left out.
func intervals(prefixes []netip.Prefix) map[element]bool {
	elements := map[element]bool{}
	for i, prefix := range prefixes {
		if !prefix.Addr().Is4() || isCovered(prefix.Masked(), prefixes, i) {
			continue
		}
		elements[element{start: string(prefix.Masked().Addr().AsSlice()), end: string(after(prefix))}] = true
	}
	return elements
}

// isCovered says whether another prefix contains this one; of equal ones, the
// first stays.
func isCovered(prefix netip.Prefix, prefixes []netip.Prefix, self int) bool {
	for i, other := range prefixes {
		if i == self || !other.Addr().Is4() || other.Bits() > prefix.Bits() || !other.Contains(prefix.Addr()) {
			continue
		}
		if other.Bits() < prefix.Bits() || i < self {
			return true
		}
	}
	return false
}

// after returns the first address behind an IPv4 prefix, nil if there is none.
func after(prefix netip.Prefix) []byte {
	first := prefix.Masked().Addr().As4()
	last := uint64(first[0])<<24 | uint64(first[1])<<16 | uint64(first[2])<<8 | uint64(first[3])
	last += uint64(1) << (32 - prefix.Bits())
	if last > 0xffffffff {
		return nil
	}
	return []byte{byte(last >> 24), byte(last >> 16), byte(last >> 8), byte(last)}
}

func deviceName(name string) []byte {
	padded := make([]byte, 16)
	copy(padded, name)
	return padded
}
