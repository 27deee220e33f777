package apply

import (
	"fmt"
	"net/netip"
	"time"
)

// Report says what an Apply did and found.
type Report struct {
	// Changes in the order in which they were made; empty if the node was
	// already as planned.
	Changes []Change
	// Warnings are sentences about things that could not be done but stop
	// nothing else, such as a peer's host name that does not resolve.
	Warnings []Warning
	// Lanes that exist now.
	Lanes []LaneFact
}

// Change is one thing that an Apply did.
type Change struct {
	Action string // "add", "change" or "remove"
	Kind   string // "device", "route", "map entry", ...
	Object string
}

func (c Change) String() string { return fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.Object) }

// Warning is one sentence with cause and remedy.
type Warning struct {
	// Peer is the public key of the lane peer concerned; zero if there is none.
	Peer    [32]byte
	Message string
}

// LaneFact is what a node tells others about one of its lanes.
type LaneFact struct {
	Device    string
	PublicKey [32]byte
	Port      uint16
	Userspace bool
}

// LaneState is a lane as its WireGuard reports it.
type LaneState struct {
	LaneFact
	Peers []PeerState
}

// PeerState is a peer of a lane as WireGuard reports it.
type PeerState struct {
	PublicKey [32]byte
	// Endpoint in use; invalid if none is known.
	Endpoint      netip.AddrPort
	LastHandshake time.Time // zero: none yet
	ReceivedBytes int64
	SentBytes     int64
}

// Counter is one cell of the weft_counters map, summed over all CPUs.
type Counter struct {
	Link      uint16
	Direction uint8 // WEFT_LANE_INGRESS ... WEFT_OVERLAY_EGRESS
	Reason    uint8
	Packets   uint64
	Bytes     uint64
}

// MapFill says how full a map is.
type MapFill struct {
	Map        string
	Entries    int
	MaxEntries int
}
