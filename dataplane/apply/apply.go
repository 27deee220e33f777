// Package apply makes a node what a plan says: it compares the plan with what
// the kernel and the pins hold and makes the smallest change, new things
// before old ones go.
//
// Nothing that was applied is remembered: every Apply reads the state back, so
// a restarted agent, a half-failed apply and a device that somebody else
// deleted all end in the same place. What an Executor leaves behind (devices,
// programs, maps, tunnels, rules) stays when the process ends; only the zero
// plan removes it.
package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// Options of an Executor. All folders are needed.
type Options struct {
	// PinRoot is a folder on a bpffs, for example /sys/fs/bpf/weft.
	PinRoot string
	// StateDir keeps the lanes' private keys and the roamed endpoints.
	StateDir string
	// RunDir carries the requests for userspace lanes, for example /run/weft.
	RunDir string
	Log    *slog.Logger
}

// Executor applies plans to this node. Its methods may be called concurrently.
type Executor struct {
	options Options
	log     *slog.Logger

	mu sync.Mutex
	// current is the last plan given to Apply; Maintain works on it.
	current plan.Plan
}

// New returns an Executor. It changes nothing on the node.
func New(options Options) (*Executor, error) {
	if options.PinRoot == "" || options.StateDir == "" || options.RunDir == "" {
		return nil, errors.New("pin root, state folder and run folder must all be set")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Executor{options: options, log: options.Log}, nil
}

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

// Apply makes the node what p says. The zero plan removes all that Weft made,
// except the state folder (see RemoveState). It goes on past a failed item and
// returns all errors joined; what failed is tried again by the next Apply.
func (e *Executor) Apply(ctx context.Context, p plan.Plan) (Report, error) {
	return Report{}, errors.New("apply: not built yet")
}

// Maintain does what the running tunnels need between two Applies and what no
// plan says: endpoints of silent peers, persisting roamed endpoints, counts of
// outer fragments. It is meant to be called every 2 to 5 s and is cheap.
func (e *Executor) Maintain(ctx context.Context) error { return nil }

// SetWords writes the map words that differ from w. Words that w does not name
// become zero.
func (e *Executor) SetWords(w plan.Words) error { return nil }

// Words reads the words in force back from the maps; empty before the first
// Apply on this node.
func (e *Executor) Words() (plan.Words, error) { return plan.Words{}, nil }

// LinkIDs of the links that the maps hold, also those of an earlier agent.
func (e *Executor) LinkIDs() map[plan.LinkKey]uint16 { return nil }

// Counters returns the cells that are not zero.
func (e *Executor) Counters() ([]Counter, error) { return nil, nil }

// Maps says how full the hash maps are.
func (e *Executor) Maps() ([]MapFill, error) { return nil, nil }

// Lanes as their WireGuard reports them now.
func (e *Executor) Lanes() ([]LaneState, error) { return nil, nil }

// Watch returns a channel that receives (never more than one pending) when
// somebody may have changed what Apply made: devices, addresses, routes, rules,
// nftables, or a restarted userspace WireGuard. It ends with the context.
func (e *Executor) Watch(ctx context.Context) <-chan struct{} { return make(chan struct{}) }

// RemoveState deletes the contents of the state folder: private keys, endpoints
// and whatever the agent keeps there. Only after the zero plan was applied.
func (e *Executor) RemoveState() error { return nil }

// Close releases file descriptors. Everything in the kernel stays.
func (e *Executor) Close() error { return nil }
