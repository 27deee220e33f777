// Package services says which services clusters share, and what to do about what
// is wrong with them.
package services

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/report"
)

// Report is the services that one cluster exports or imports.
type Report struct {
	ClusterID v1alpha1.ClusterID `json:"clusterID"`
	Healthy   bool               `json:"healthy"`
	Services  []Service          `json:"services"`
	Peers     []Peer             `json:"peers"`
	DNS       dns.Standing       `json:"dns"`
	Problems  []report.Problem   `json:"problems"`
}

// Service is a name in a namespace that at least one cluster exports.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Export is nil where this cluster has no ServiceExport.
	Export *Export `json:"export,omitempty"`
	// Import is nil where there is no ServiceImport.
	Import *Import `json:"import,omitempty"`
	// Clusters whose endpoints it has, by name; this one may be among them.
	Clusters []Cluster `json:"clusters"`
}

// Export is what weft-controller says of a ServiceExport of this cluster.
type Export struct {
	Valid bool `json:"valid"`
	// Ready: peers are told of it; Message says which, or why not.
	Ready    bool   `json:"ready"`
	Conflict bool   `json:"conflict"`
	Message  string `json:"message,omitempty"`
}

// Import is the ServiceImport.
type Import struct {
	// ByWeft: it is not another implementation's.
	ByWeft bool     `json:"byWeft"`
	Ready  bool     `json:"ready"`
	Host   string   `json:"host"`
	Type   string   `json:"type"`
	IPs    []string `json:"ips"`
	Ports  []Port   `json:"ports"`
}

// Port at which an import is reached.
type Port struct {
	Name     string          `json:"name,omitempty"`
	Protocol corev1.Protocol `json:"protocol"`
	Port     int32           `json:"port"`
}

// Reach is whether packets get to a cluster.
type Reach string

// What is known of that.
const (
	Reached    Reach = "Yes"
	NotReached Reach = "No"
	// Unmeasured: nobody has found out, and endpoints stand as they were.
	Unmeasured Reach = "Unknown"
)

// Cluster is what one cluster adds to a service here.
type Cluster struct {
	Name     string            `json:"name"`
	Identity v1alpha1.Identity `json:"identity,omitempty"`
	// Own: it is this cluster.
	Own       bool  `json:"own"`
	Reachable Reach `json:"reachable"`
	// Endpoints in the slices, and how many of them are ready.
	Endpoints int `json:"endpoints"`
	Ready     int `json:"ready"`
	// Withheld endpoints are left out of the slices until the cluster is reached.
	Withheld int `json:"withheld"`
}

// Peer is a foreign cluster as services are concerned.
type Peer struct {
	Name      string                `json:"name"`
	Reachable Reach                 `json:"reachable"`
	Policy    v1alpha1.ServicesSpec `json:"policy"`
	// Says is what weft-controller says of its services.
	Says string `json:"says,omitempty"`
}
