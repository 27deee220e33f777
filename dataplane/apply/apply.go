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
	"log/slog"
	"path/filepath"
	"sync"

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
	specs   programSpecs

	mu sync.Mutex // held by Apply and Maintain
	// current is the last plan given to Apply; Maintain works on it.
	current   plan.Plan
	endpoints *endpointBook
	// fragments are the nftables counts by link at the last look.
	fragments map[uint16]uint32

	// The maps have a lock of their own: a path must flip while an Apply waits
	// for a host name.
	mapsMu sync.Mutex
	maps   *mapSet // nil until opened

	// forceClassic makes attach use clsact, as a kernel without TCX would.
	forceClassic bool
}

// New returns an Executor. It changes nothing on the node.
func New(options Options) (*Executor, error) {
	if options.PinRoot == "" || options.StateDir == "" || options.RunDir == "" {
		return nil, errors.New("pin root, state folder and run folder must all be set")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	specs, err := loadSpecs()
	if err != nil {
		return nil, err
	}
	return &Executor{
		options:   options,
		log:       options.Log,
		specs:     specs,
		endpoints: newEndpointBook(filepath.Join(options.StateDir, endpointsFile)),
		fragments: map[uint16]uint32{},
	}, nil
}

// Apply makes the node what p says. The zero plan removes all that Weft made,
// except the state folder (see RemoveState). It goes on past a failed item and
// returns all errors joined; what failed is tried again by the next Apply.
func (e *Executor) Apply(ctx context.Context, p plan.Plan) (Report, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current = p
	r := &run{Executor: e, ctx: ctx, plan: p, guarded: map[string]bool{}}

	// Make. A device comes up only behind its programs, and the firewall comes
	// before the first peer and the first route: otherwise a peer's packet could
	// pass unchecked, or a flow could start with the wrong source for its life.
	r.ensureOverlay()
	r.ensureLanes()
	r.ensureMaps()
	r.ensurePrograms()
	r.raiseDevices()
	r.ensureFirewall()
	r.ensurePeers()
	r.ensureRoutes()

	// Break, in the reverse order. A device goes before its programs and its
	// place in the firewall: its peers send until then.
	r.pruneRoutes()
	r.prunePeers()
	r.pruneDevices()
	r.pruneFirewallSets()
	r.pruneAttachments()
	r.pruneMapEntries()
	r.pruneFirewall()
	r.prunePins()

	for _, change := range r.report.Changes {
		e.log.Info("applied", "action", change.Action, "kind", change.Kind, "object", change.Object)
	}
	return r.report, errors.Join(r.failures...)
}

// run is one Apply.
type run struct {
	*Executor
	ctx    context.Context
	plan   plan.Plan
	report Report

	failures []error
	// guarded devices have their programs attached.
	guarded map[string]bool
	// walled: the firewall is as planned, so peers may be let in.
	walled bool
	// breakMaps removes map entries that the plan does not name any more.
	breakMaps []func()
}

func (r *run) did(action, kind, object string) {
	r.report.Changes = append(r.report.Changes, Change{Action: action, Kind: kind, Object: object})
}

// fail records an error, if there is one, and says whether there was none.
func (r *run) fail(err error) bool {
	if err != nil {
		r.failures = append(r.failures, err)
	}
	return err == nil
}

func (r *run) zero() bool {
	return r.plan.Overlay == nil && len(r.plan.Lanes) == 0 && r.plan.Firewall == nil
}

// Close releases file descriptors. Everything in the kernel stays.
func (e *Executor) Close() error {
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	err := e.maps.close()
	e.maps = nil
	return err
}
