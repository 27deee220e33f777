// Package metrics serves an agent's Prometheus metrics and its health.
package metrics

import (
	"time"

	"github.com/weft-fabric/weft/apis/agent"
)

// Counter is one cell of the data plane's counters.
type Counter struct {
	Neighbor  string // empty: no link is involved
	Direction string // lane_ingress, lane_egress, overlay_ingress, overlay_egress, host
	Reason    string // "forwarded", or why packets were dropped
	Packets   uint64
	Bytes     uint64
}

// MapFill says how full a map is.
type MapFill struct {
	Map        string
	Entries    int
	MaxEntries int
}

// LanePeer is a WireGuard peer of a lane.
type LanePeer struct {
	Device        string
	Neighbor      string
	RemoteGateway int32
	LastHandshake time.Time // zero: none yet
	ReceivedBytes int64
	SentBytes     int64
}

// Sources of metrics, read at each scrape; nil ones are left out. They must be
// safe for concurrent use.
type Sources struct {
	Counters     func() ([]Counter, error)
	Measurements func() agent.Measurements
	Maps         func() ([]MapFill, error)
	Lanes        func() ([]LanePeer, error)
	// Ready returns nil once the node's plan has been applied, else why not.
	Ready func() error
}
