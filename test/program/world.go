// Package program runs the BPF programs on packets: on a table of fixtures,
// on random packets against a model in Go, and on real devices.
package program

import (
	"net/netip"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// World is what one node of the fabric knows, as a reader thinks of it. Load
// turns it into maps, Model walks it directly; neither uses the other's way.
type World struct {
	FabricAddress netip.Addr
	VNI           uint32
	ProbePort     uint16
	ChannelPort   uint16
	Networks      []Network
	Links         map[uint16]Link
	Rows          []Row
	// Accept: traffic of a cluster may enter from a link.
	Accept map[Crossing]bool
	// Transit: from cluster, to cluster.
	Transit map[[2]uint8]bool
	// Paths: destination cluster to link.
	Paths map[uint8]uint16
	// Choices: destination cluster to gateway ids.
	Choices  map[uint8][]uint8
	Gateways map[uint8]Gateway
	// MTU towards each cluster.
	MTU    map[uint8]uint32
	Places []Place
	// Nodes by underlay address; true for gateways.
	Nodes map[netip.Addr]bool
	Reach [4]uint64
}

// Network is a prefix of the local view.
type Network struct {
	Cluster, Network uint8
	Local            netip.Prefix
	Node             bool
}

// Row is a bijection on a link: what the neighbor is called here (ours) or
// what the neighbor calls us (theirs).
type Row struct {
	Link             uint16
	Side             uint8
	Cluster, Network uint8
	Local, Wire      netip.Prefix
}

// Link to a gateway of a neighbor.
type Link struct {
	Cluster        uint8
	Lane           uint32 // interface index
	OuterFragments uint32
}

// Crossing is a cluster as seen over a link.
type Crossing struct {
	Link    uint16
	Cluster uint8
}

// Gateway of the own cluster.
type Gateway struct {
	Underlay netip.Addr
	Local    bool
}

// Place is where a pod or a fabric address of the own cluster is.
type Place struct {
	Prefix        netip.Prefix
	Underlay      netip.Addr
	Local, Fabric bool
}

// rows makes a row for each (cluster, network) of a link from its wire prefix.
func (w *World) rows(link uint16, side uint8, wires map[[2]uint8]string) {
	for key, wire := range wires {
		for _, network := range w.Networks {
			if network.Cluster == key[0] && network.Network == key[1] {
				w.Rows = append(w.Rows, Row{Link: link, Side: side, Cluster: key[0], Network: key[1],
					Local: network.Local, Wire: netip.MustParsePrefix(wire)})
			}
		}
	}
}

// network with this cluster and index, if there is one.
func (w *World) network(cluster, network uint8) *Network {
	for i := range w.Networks {
		if w.Networks[i].Cluster == cluster && w.Networks[i].Network == network {
			return &w.Networks[i]
		}
	}
	return nil
}

// Clusters of Example, seen from a gateway of cluster X.
const (
	Self  = bpfgen.Self
	Hub   = 1 // a neighbor, over links 1 and 2 (its two gateways)
	Other = 2 // a neighbor over link 3, and behind the hub
	Far   = 3 // only behind the hub
	Away  = 4 // a neighbor, over a link of the other gateway; link 4 is down
)

// Networks of Example.
const (
	Pods     = 1
	Nodes    = 2
	Services = 3 // inside the pods' CIDR
	Odd      = 4
)

// Addresses of nodes in Example's underlay.
var (
	HereUnderlay  = netip.MustParseAddr("192.168.77.1") // this node, a gateway
	PlainUnderlay = netip.MustParseAddr("192.168.77.2")
	TwinUnderlay  = netip.MustParseAddr("192.168.77.3") // the other gateway
)

// Example is the world of the fixtures: every cluster uses 10.244.0.0/16 for
// its pods, as X itself does.
func Example() *World {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	w := &World{
		FabricAddress: addr("100.127.0.1"),
		VNI:           0x7e57,
		ProbePort:     9812,
		ChannelPort:   9811,
		Networks: []Network{
			{Self, Pods, prefix("10.244.0.0/16"), false},
			{Self, Services, prefix("10.244.200.0/24"), false},
			{Self, Nodes, prefix("100.127.0.0/20"), true},
			{Hub, Pods, prefix("100.70.0.0/16"), false},
			{Hub, Nodes, prefix("100.71.16.0/20"), true},
			{Other, Pods, prefix("100.72.0.0/16"), false},
			{Other, Nodes, prefix("100.71.32.0/20"), true},
			{Other, Odd, prefix("100.74.3.160/27"), false},
			{Far, Pods, prefix("100.128.0.0/9"), false},
			{Far, Nodes, prefix("100.71.48.0/20"), true},
			{Away, Pods, prefix("100.75.0.0/16"), false},
			{Away, Nodes, prefix("100.71.64.0/20"), true},
		},
		Links: map[uint16]Link{
			1: {Cluster: Hub, Lane: 1, OuterFragments: 0x01020304},
			2: {Cluster: Hub, Lane: 1},
			3: {Cluster: Other, Lane: 1},
			4: {Cluster: Away, Lane: 1},
		},
		Accept: map[Crossing]bool{
			{1, Hub}: true, {1, Other}: true, {1, Far}: true,
			{2, Hub}: true, {2, Far}: true, // Other must come directly, or over link 1
			{3, Other}: true,
		},
		Transit: map[[2]uint8]bool{{Hub, Other}: true, {Other, Hub}: true, {Hub, Away}: true, {Away, Hub}: true,
			{Other, Away}: true, {Away, Other}: true, {Other, Far}: true},
		Paths:    map[uint8]uint16{Hub: 1, Other: 3, Far: 2, Away: 4},
		Choices:  map[uint8][]uint8{Hub: {1}, Other: {1, 2}, Far: {2}, Away: {2}},
		Gateways: map[uint8]Gateway{1: {HereUnderlay, true}, 2: {TwinUnderlay, false}},
		MTU:      map[uint8]uint32{Hub: 1440, Other: 1400, Far: 1440, Away: 1300},
		Places: []Place{
			{Prefix: prefix("100.127.0.1/32"), Underlay: HereUnderlay, Local: true, Fabric: true},
			{Prefix: prefix("100.127.0.2/32"), Underlay: PlainUnderlay, Fabric: true},
			{Prefix: prefix("100.127.0.3/32"), Underlay: TwinUnderlay, Fabric: true},
			{Prefix: prefix("10.244.0.0/24"), Underlay: HereUnderlay, Local: true},
			{Prefix: prefix("10.244.1.0/24"), Underlay: PlainUnderlay},
			{Prefix: prefix("10.244.1.77/32"), Underlay: HereUnderlay, Local: true},
			{Prefix: prefix("10.244.200.0/24"), Underlay: PlainUnderlay},
		},
		Nodes: map[netip.Addr]bool{HereUnderlay: true, PlainUnderlay: false, TwinUnderlay: true},
		Reach: [4]uint64{1<<Hub | 1<<Other | 1<<Far, 0, 0, 1 << 63},
	}
	w.rows(1, bpfgen.SideOurs, map[[2]uint8]string{
		{Hub, Pods}: "100.70.0.0/16", {Hub, Nodes}: "240.0.16.0/20", // the first link reuses V as W
		{Other, Pods}: "240.1.0.0/16", {Other, Nodes}: "240.0.32.0/20", {Other, Odd}: "240.0.0.64/27",
		{Far, Pods}: "241.128.0.0/9", {Far, Nodes}: "240.0.48.0/20",
	})
	w.rows(2, bpfgen.SideOurs, map[[2]uint8]string{
		{Hub, Pods}: "242.0.0.0/16", {Hub, Nodes}: "242.1.16.0/20",
		{Far, Pods}: "243.0.0.0/9", {Far, Nodes}: "242.1.48.0/20", {Other, Pods}: "242.2.0.0/16", {Other, Nodes}: "242.1.32.0/20",
	})
	w.rows(3, bpfgen.SideOurs, map[[2]uint8]string{
		{Other, Pods}: "100.72.0.0/16", {Other, Nodes}: "100.71.32.0/20", {Other, Odd}: "100.74.3.160/27",
	})
	// What the neighbors call us may collide with anything here.
	w.rows(1, bpfgen.SideTheirs, map[[2]uint8]string{
		{Self, Pods}: "100.70.0.0/16", {Self, Services}: "10.244.7.0/24", {Self, Nodes}: "100.127.0.0/20",
		{Other, Pods}: "100.81.0.0/16", {Other, Nodes}: "240.0.16.0/20",
		{Away, Pods}: "100.84.0.0/16", {Away, Nodes}: "240.0.64.0/20",
	})
	w.rows(2, bpfgen.SideTheirs, map[[2]uint8]string{
		{Self, Pods}: "10.244.0.0/16", {Self, Nodes}: "244.0.0.0/20", {Self, Services}: "10.244.16.0/24",
		{Away, Pods}: "10.245.0.0/16", {Away, Nodes}: "244.0.64.0/20",
	})
	w.rows(3, bpfgen.SideTheirs, map[[2]uint8]string{
		{Self, Pods}: "100.90.0.0/16", {Self, Nodes}: "244.8.0.0/20",
		{Hub, Pods}: "244.9.0.0/16", {Hub, Nodes}: "244.8.16.0/20", {Far, Pods}: "245.0.0.0/9",
	})
	return w
}
