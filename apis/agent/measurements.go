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
	// Paths to remote clusters over the tunnels of this node (gateways only): one
	// per tunnel to the cluster itself, and one per tunnel to a hub.
	Paths []Path `json:"paths,omitempty"`
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

// Path is a way to a remote cluster over one tunnel of this gateway, as probes
// to that cluster and back see it.
type Path struct {
	// Cluster is the local name of the destination, ClusterIndex its index.
	Cluster      string `json:"cluster"`
	ClusterIndex int32  `json:"clusterIndex"`
	// Via is the local name of the neighbor at the far end of the tunnel, ViaIndex
	// its index: the destination itself, or a hub.
	Via      string `json:"via"`
	ViaIndex int32  `json:"viaIndex"`
	// OwnGateway and RemoteGateway (of Via) are the ends of the tunnel.
	OwnGateway    int32 `json:"ownGateway"`
	RemoteGateway int32 `json:"remoteGateway"`
	Measurement
	// Active: this gateway sends to the destination over this path.
	Active bool                `json:"active,omitempty"`
	Reason v1alpha1.PathReason `json:"reason,omitempty"`
	// LastHandshake of WireGuard; zero if there was none.
	LastHandshake time.Time `json:"lastHandshake,omitzero"`
	// Endpoint that WireGuard sends to (address:port), empty if unknown.
	Endpoint string `json:"endpoint,omitempty"`
	// OuterFragments that the destination has counted on its last tunnel: above
	// zero and rising, the underlay's MTU is smaller than configured.
	OuterFragments uint32 `json:"outerFragments,omitempty"`
	// LargeLost: probes as large as the path's MTU get no answer, small ones do.
	LargeLost bool `json:"largeLost,omitempty"`
}

// Direct reports whether no hub is on the path.
func (p *Path) Direct() bool { return p.ClusterIndex == p.ViaIndex }

// Node is a node of the own cluster as seen over the overlay.
type Node struct {
	Name          string `json:"name"`
	FabricAddress string `json:"fabricAddress"`
	Measurement
}

// Cluster says how this node reaches a remote cluster.
type Cluster struct {
	Cluster      string `json:"cluster"`
	ClusterIndex int32  `json:"clusterIndex"`
	// Gateways (ids) of the own cluster that this node sends to, in use now.
	Gateways []int32 `json:"gateways,omitempty"`
}
