// Package agent holds what an agent serves to the controller over its API:
// what the probes of one node saw. It is never written to the API server at
// probe speed.
package agent

import (
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// MeasurementsPath is the HTTP path of the measurements, a JSON document of
// type Measurements.
const MeasurementsPath = "/v1/measurements"

// Measurements are one node's view of the fabric.
type Measurements struct {
	Node string    `json:"node"`
	Time time.Time `json:"time"`
	// Links that this node terminates (gateways only).
	Links []Link `json:"links,omitempty"`
	// Nodes of the own cluster as reached over the overlay: a plain node probes
	// its gateways, a gateway probes every node.
	Nodes []Node `json:"nodes,omitempty"`
	// Clusters that this node can reach, and how.
	Clusters []Cluster `json:"clusters,omitempty"`
}

// Measurement is the state of one probed target.
type Measurement struct {
	State v1alpha1.PathState `json:"state"`
	// RTTMicroseconds is the smoothed round-trip time.
	RTTMicroseconds int64 `json:"rttMicroseconds,omitempty"`
	// JitterMicroseconds is the smoothed difference of successive round-trip
	// times (RFC 3550, 6.4.1).
	JitterMicroseconds int64 `json:"jitterMicroseconds,omitempty"`
	// LossPermille is the share of unanswered probes of the last 100.
	LossPermille int32     `json:"lossPermille,omitempty"`
	Since        time.Time `json:"since"`
}

// Link is a tunnel of this gateway.
type Link struct {
	Neighbor      string `json:"neighbor"`
	ClusterIndex  int32  `json:"clusterIndex"`
	OwnGateway    int32  `json:"ownGateway"`
	RemoteGateway int32  `json:"remoteGateway"`
	Measurement
	// LastHandshake of WireGuard; zero if there was none.
	LastHandshake time.Time `json:"lastHandshake,omitzero"`
	// Endpoint that WireGuard sends to (address:port), empty if unknown.
	Endpoint string `json:"endpoint,omitempty"`
	// OuterFragments that the far end has counted from us: above zero and
	// rising, the underlay's MTU is smaller than configured.
	OuterFragments uint32 `json:"outerFragments,omitempty"`
	// LargeLost: probes as large as the path's MTU get no answer, small ones do.
	LargeLost bool `json:"largeLost,omitempty"`
}

// Node is a node of the own cluster as seen over the overlay.
type Node struct {
	Name          string `json:"name"`
	FabricAddress string `json:"fabricAddress"`
	Measurement
}

// Cluster says how this node reaches a remote cluster.
type Cluster struct {
	Neighbor     string `json:"neighbor"`
	ClusterIndex int32  `json:"clusterIndex"`
	// Gateways (ids) of the own cluster that this node sends to, in use now.
	Gateways []int32 `json:"gateways,omitempty"`
	// Active is the remote gateway of the link in use (gateways only), 0: none.
	Active int32 `json:"active,omitempty"`
}
