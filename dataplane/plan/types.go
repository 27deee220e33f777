// Package plan says what a node should have: a pure function turns the
// cluster's fabric objects and the node's facts into a Plan, which is data.
// Package apply makes it so.
package plan

import (
	"net"
	"net/netip"
	"time"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Names of what Weft makes on a node.
const (
	OverlayDevice = "weft-vx"
	LaneDevice    = "weft0"
	NftablesTable = "weft"
)

// OverlayNextHop is the next hop of every route into the overlay. It exists on
// no wire: one permanent neighbor entry answers for it, so that there is no
// entry per remote pod.
var OverlayNextHop = netip.AddrFrom4([4]byte{169, 254, 77, 1})

// Plan is everything that Weft has on a node. The zero Plan is a node without
// Weft: applying it removes all that Weft made.
type Plan struct {
	// Overlay is nil only in the zero plan or while the node has no fabric
	// address or no VNI.
	Overlay *Overlay `json:"overlay,omitempty"`
	// Lanes are empty on plain nodes.
	Lanes    []Lane    `json:"lanes,omitempty"`
	Routing  Routing   `json:"routing"`
	Firewall *Firewall `json:"firewall,omitempty"`
	Maps     Maps      `json:"maps"`
	// Names are not applied: they say what the numbers stand for.
	Names Names `json:"names"`
}

// Overlay is the flow-based VXLAN device.
type Overlay struct {
	Device string `json:"device"`
	Port   uint16 `json:"port"`
	VNI    uint32 `json:"-"` // a secret of the cluster
	// MAC is unique per node: the kernel drops a frame from its own MAC as a loop.
	MAC net.HardwareAddr `json:"mac"`
	MTU int              `json:"mtu"`
	// FabricAddress becomes a /32 on the device, before any route names it.
	FabricAddress netip.Addr `json:"fabricAddress"`
}

// Lane is a WireGuard device. Its private key is the node's own and not part
// of any plan.
type Lane struct {
	Device string `json:"device"`
	Port   uint16 `json:"port"`
	MTU    int    `json:"mtu"`
	// ChannelAddress becomes a /128 on the device. Invalid on other lanes than
	// the first.
	ChannelAddress netip.Addr `json:"channelAddress"`
	Peers          []Peer     `json:"peers"`
}

// Peer is a gateway of a neighbor, as one lane's WireGuard sees it.
type Peer struct {
	PublicKey [32]byte `json:"publicKey"`
	// Endpoints as host:port, in order of preference; empty if the peer dials
	// us. A roamed endpoint that works is never overwritten.
	Endpoints []string      `json:"endpoints,omitempty"`
	Keepalive time.Duration `json:"keepaliveNanoseconds,omitempty"`
	// Yields: the peer can dial us and has the lower identity, so it does, and we
	// only if it does not. Where two initiations cross, neither handshake comes
	// about: an end that answers gives up its own. Both try again after 5 s, and
	// with packets waiting at both ends they cross again, for minutes at worst.
	// Where they only just cross, the initiator can be left with a second session
	// that its peer does not have. Its next renewal then throws away the one in
	// use, and packets of one round trip are lost (BeginSymmetricSession of
	// wireguard-go, wg_noise_handshake_begin_session of Linux).
	Yields bool `json:"yields,omitempty"`
	// AllowedIPs: every wire prefix that enters from this peer, and its channel
	// address, sorted.
	AllowedIPs []netip.Prefix `json:"allowedIPs"`
	// ChannelAddress gets a /128 route on the lane.
	ChannelAddress netip.Addr `json:"channelAddress"`
}

// Routing is Weft's own route table and the rule that leads to it.
type Routing struct {
	Table        int     `json:"table"`
	RulePriority int     `json:"rulePriority"`
	Routes       []Route `json:"routes,omitempty"`
}

// Route leads a local view into the overlay: via OverlayNextHop, onlink.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	Source      netip.Addr   `json:"source"`
	MTU         int          `json:"mtu"`
}

// Firewall is what Weft's one nftables table needs to know.
type Firewall struct {
	OverlayPort uint16   `json:"overlayPort"`
	LanePorts   []uint16 `json:"lanePorts,omitempty"`
	ChannelPort uint16   `json:"channelPort"`
	ProbePort   uint16   `json:"probePort"`
	// Underlays of all nodes of the cluster: who may send to OverlayPort.
	Underlays []netip.Addr `json:"underlays"`
	// OwnPods and OwnNodes are this cluster's networks by kind.
	OwnPods  []netip.Prefix `json:"ownPods"`
	OwnNodes []netip.Prefix `json:"ownNodes"`
	// FabricAddress of this node: the source of what has no fabric source.
	FabricAddress netip.Addr `json:"fabricAddress"`
	// Foreign are all local views; Granted those of clusters that may open
	// flows to our pods.
	Foreign []netip.Prefix `json:"foreign,omitempty"`
	Granted []netip.Prefix `json:"granted,omitempty"`
	// ChannelAddresses of this node (gateways only).
	ChannelAddresses []netip.Addr `json:"channelAddresses,omitempty"`
}

// Link is an entry of the links map. Its lane's interface index is known only
// once the device exists: apply fills Value.LaneIfindex.
type Link struct {
	Value bpfgen.BorderWeftLink `json:"value"`
	Lane  string                `json:"lane"`
}

// Maps is the desired content of every map that the agent writes, except the
// words that follow measurements (paths, choices, reach), which package path
// decides and apply writes without a new plan. An array index that is not
// named holds zero.
type Maps struct {
	View4     map[uint32]bpfgen.BorderWeftNet
	View4Long map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftNet
	Wire4     map[uint32]bpfgen.BorderWeftWire
	Wire4Long map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftWire
	Theirs4   map[bpfgen.BorderWeftTheirsKey]bpfgen.BorderWeftNet
	Rows4     map[bpfgen.BorderWeftRowKey]bpfgen.BorderWeftRow4
	Links     map[uint32]Link
	Accept    map[bpfgen.BorderWeftAcceptKey]uint32
	Transit   map[uint32]uint32
	Gateways4 map[uint32]bpfgen.BorderWeftGateway4
	Clusters  map[uint32]bpfgen.BorderWeftCluster
	Places4   map[bpfgen.BorderWeftPrefix4]bpfgen.BorderWeftPlace4
	Nodes4    map[uint32]uint32
	Lengths   bpfgen.BorderWeftLengths
}

// Words are the map words that follow measurements.
type Words struct {
	// Paths: destination cluster index -> link id, 0 for none.
	Paths map[uint32]uint32 `json:"paths"`
	// Choices: destination cluster index -> packed gateway ids (see maps.h).
	Choices map[uint32]uint64 `json:"choices"`
	// Reach of this gateway, one bit per cluster index.
	Reach bpfgen.BorderWeftReach `json:"reach"`
}
