// Package source supplies the objects that an agent plans from: from the API
// server, or from a directory that holds the same YAML.
package source

import (
	"context"
	"net/netip"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Source is a place that objects come from. Only Run blocks; the others may be
// called at any time from any goroutine.
type Source interface {
	// Run follows the source until the context ends. It returns an error only if
	// following is impossible; an unreachable API server is not an error.
	Run(ctx context.Context) error
	// Snapshot returns what is known now. The caller must not change it.
	Snapshot() Snapshot
	// Changed delivers after a change. Several changes may be one delivery.
	Changed() <-chan struct{}
	// WriteStatus replaces the status of this node's FabricNode.
	WriteStatus(ctx context.Context, status v1alpha1.FabricNodeStatus) error
}

// Snapshot is the state of a source at one moment. A kind that is not synced
// says nothing: its absence must delete nothing. A kind that is synced and
// empty does.
type Snapshot struct {
	ConfigSynced    bool
	NodesSynced     bool
	NeighborsSynced bool
	VNISynced       bool
	PodsSynced      bool

	// Config is nil if there is no FabricConfig.
	Config    *v1alpha1.FabricConfig
	Nodes     []v1alpha1.FabricNode
	Neighbors []v1alpha1.Neighbor
	// VNI of the overlay, 0 if there is no Secret.
	VNI uint32
	// Pods are the addresses of this node's pods, without those on the host
	// network and those that have ended; sorted.
	Pods []netip.Addr
}

// Synced reports whether everything that a plan needs is known. Pods are not
// among it: until they are, the node's last status stands in for them.
func (s *Snapshot) Synced() bool {
	return s.ConfigSynced && s.NodesSynced && s.NeighborsSynced && s.VNISynced
}
