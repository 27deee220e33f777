package apply

import (
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// Reasons for which the host's rules drop, the names of counters in the table.
const (
	dropOverlayStranger = "overlay_stranger"
	dropOverlayForward  = "overlay_forward"
	dropInitiations     = "initiation_rate"
	dropChannel         = "access_channel"
	dropFabricAddress   = "access_fabric_address"
	dropNotGranted      = "access_not_granted"
	dropDestination     = "access_destination"
	dropIPv6            = "access_ipv6"
)

// A WireGuard handshake initiation: type 1 in the first byte, 148 bytes of UDP
// payload (WireGuard whitepaper, 5.4.2). More of them per second and source
// address than this are dropped: each costs a public key operation. A peer sends
// one in 5 s, so hundreds may share an address. Nothing else is limited.
const (
	initiationLength    = 8 + 148
	initiationType      = 1
	initiationsASecond  = 100
	initiationBurst     = 200
	maxInitiators       = 16384
	initiatorsForgotten = 10 * time.Second
)

// Sources of outer fragments; one that is silent for an hour is forgotten.
const (
	maxFragmenters       = 4096
	fragmentersForgotten = time.Hour
)

// dynamicSpec bounds a set that rules fill.
type dynamicSpec struct {
	size    uint32
	timeout time.Duration
}

// buildRuleset returns Weft's table for the plan. Chains in the order in which a
// packet meets them; the reason is with each rule.
func buildRuleset(p plan.Plan) ruleset {
	f := p.Firewall
	return ruleset{
		sets: append(planSets(p),
			setSpec{name: setFragments, key: nftables.TypeIPAddr, dynamic: &dynamicSpec{maxFragmenters, fragmentersForgotten}},
			setSpec{name: setInitiations, key: nftables.TypeIPAddr, dynamic: &dynamicSpec{maxInitiators, initiatorsForgotten}}),
		counters: []string{dropOverlayStranger, dropOverlayForward, dropInitiations, dropChannel,
			dropFabricAddress, dropNotGranted, dropDestination, dropIPv6},
		chains: []chainSpec{
			{"fragments", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, -450, fragmentRules()},
			{"guard", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, -300, guardRules(f)},
			{"output", nftables.ChainTypeFilter, nftables.ChainHookOutput, -300, outputRules(f)},
			{"forward", nftables.ChainTypeFilter, nftables.ChainHookForward, -300, forwardRules(f)},
			// The chains that others jump to come before them.
			{name: "access", rules: accessRules(p)},
			{"entry", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, -150, entryRules()},
			{"source", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, 99, sourceRules(f)},
		},
	}
}

// fragmentRules count outer first fragments on the lane ports per source, before
// defragmentation (-400) hides them: they mean that the underlay's MTU is less
// than configured. The agent copies the counts to where probes find them.
func fragmentRules() []ruleSpec {
	count := []expr.Any{
		network(12, 4),
		&expr.Dynset{SrcRegKey: 1, SetName: setFragments, Operation: uint32(unix.NFT_DYNSET_OP_UPDATE), Exprs: []expr.Any{&expr.Counter{}}},
	}
	return []ruleSpec{all("count outer fragments by source", isFirstFragment(), destinationPortIn(unix.IPPROTO_UDP, setLanePorts), count)}
}

// guardRules: the overlay's outer packets are not tracked, and nobody but the
// cluster's nodes may send any to this node.
func guardRules(f *plan.Firewall) []ruleSpec {
	overlay := destinationPort(unix.IPPROTO_UDP, f.OverlayPort)
	notrack := []expr.Any{&expr.Notrack{}}
	initiation := append(destinationPortIn(unix.IPPROTO_UDP, setLanePorts),
		transport(4, 2), equal([]byte{initiationLength >> 8, initiationLength & 0xff}),
		transport(8, 1), equal([]byte{initiationType}))
	tooMany := append(isIPv4(), network(12, 4), &expr.Dynset{
		SrcRegKey: 1, SetName: setInitiations, Operation: uint32(unix.NFT_DYNSET_OP_UPDATE),
		Exprs: []expr.Any{&expr.Limit{Type: expr.LimitTypePkts, Rate: initiationsASecond, Unit: expr.LimitTimeSecond, Burst: initiationBurst, Over: true}},
	})
	return []ruleSpec{
		all("overlay between nodes", overlay, source(setUnderlays), notrack, accept()),
		all("overlay from strangers", overlay, toThisNode(), drop(dropOverlayStranger)),
		all("too many handshakes of one source", initiation, tooMany, drop(dropInitiations)),
	}
}

func outputRules(f *plan.Firewall) []ruleSpec {
	return []ruleSpec{all("overlay between nodes", destinationPort(unix.IPPROTO_UDP, f.OverlayPort), destination(setUnderlays), []expr.Any{&expr.Notrack{}})}
}

// forwardRules: nodes send overlay packets themselves. One that is forwarded is
// of a pod, and the CNI's masquerade could make it look like a node's.
func forwardRules(f *plan.Firewall) []ruleSpec {
	return []ruleSpec{all("overlay from pods", destinationPort(unix.IPPROTO_UDP, f.OverlayPort), destination(setUnderlays), drop(dropOverlayForward))}
}

// entryRules choose what is checked: all that comes from our devices, unless it
// belongs to a flow that was let in or that we opened. The pod's own node sees
// both directions of a flow, so its connection tracking knows.
func entryRules() []ruleSpec {
	return []ruleSpec{
		all("channel by lanes only", destination6(setChannel), notFromLane(), notFrom("lo"), drop(dropChannel)),
		// Tracking takes up a connection in the middle, in whatever direction it sees
		// first: what a pod still sends on one whose grant has ended would turn it
		// into a flow that we opened.
		all("pods' part of revoked flows", notFromLane(), notFrom(plan.OverlayDevice), destination(setForeign), notDestination(setGranted),
			tracked(expr.CtStateBitNEW), notOpening(), drop(dropNotGranted)),
		all("flows that are known", tracked(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), accept()),
		all("from a lane", fromLane(), gotoChain("access")),
		all("from the overlay", from(plan.OverlayDevice), gotoChain("access")),
	}
}

// accessRules decide by destination, for new flows as for packets that tracking
// calls invalid or does not track: a grant is needed for all of them.
func accessRules(p plan.Plan) []ruleSpec {
	f := p.Firewall
	echoRequest := append(protocol(unix.IPPROTO_ICMP), transport(0, 1), equal([]byte{8}))
	return []ruleSpec{
		all("peer channel", destination6(setChannel), fromLane(), destinationPort(unix.IPPROTO_TCP, f.ChannelPort), accept()),
		all("other IPv6", isIPv6(), drop(dropIPv6)),

		all("ping of a node", destination(setOwnNodes), echoRequest, accept()),
		all("other ports of a node", destination(setOwnNodes), drop(dropFabricAddress)),

		all("pods by grant", destination(setOwnPods), source(setGranted), accept()),
		// What gateways of this cluster bounce. The overlay's guard has checked
		// that the source is where it says; a lane's has no own sources.
		all("pods from pods", destination(setOwnPods), from(plan.OverlayDevice), source(setOwnPods), accept()),
		all("pods from nodes", destination(setOwnPods), from(plan.OverlayDevice), source(setOwnNodes), accept()),
		all("pods without grant", destination(setOwnPods), drop(dropNotGranted)),

		// A gateway hands its stack what is too big or too old for a lane, so that
		// the stack answers the sender or fragments it. What comes from a lane in
		// transit has been checked there.
		all("bounced from pods", destination(setForeign), from(plan.OverlayDevice), source(setOwnPods), accept()),
		all("bounced from nodes", destination(setForeign), from(plan.OverlayDevice), source(setOwnNodes), accept()),
		all("bounced in transit", destination(setForeign), from(plan.OverlayDevice), source(setForeign), accept()),
		all("bounced in transit to another gateway", destination(setForeign), fromLane(), source(setForeign), accept()),

		all("everything else", drop(dropDestination)),
	}
}

// sourceRules run just before everybody else's source NAT (100). NAT is set up
// once per connection, so translating a source to itself keeps later masquerade
// rules away, kube-proxy's and the CNI's, without a rule in their tables.
func sourceRules(f *plan.Firewall) []ruleSpec {
	keep := append(isIPv4(), network(12, 4),
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegAddrMax: 1})
	rules := []ruleSpec{
		all("keep foreign sources", source(setForeign), keep),
		all("keep pods' sources", destination(setForeign), source(setOwnPods), keep),
		all("keep nodes' sources", destination(setForeign), source(setOwnNodes), keep),
	}
	if f.FabricAddress.Is4() {
		become := []expr.Any{
			&expr.Immediate{Register: 1, Data: f.FabricAddress.AsSlice()},
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegAddrMax: 1},
		}
		rules = append(rules, all("other sources become this node", to(plan.OverlayDevice), destination(setForeign), become))
	}
	return rules
}
