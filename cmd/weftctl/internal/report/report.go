// Package report says how a cluster and its peers are, and what to do about
// what is wrong.
package report

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/install"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// Input is what a report is made from.
type Input struct {
	install.Observed
	Clusters    []v1alpha1.ForeignCluster
	Neighbors   []v1alpha1.Neighbor
	Connections []v1alpha1.ForeignClusterConnection
	Now         time.Time
}

// Report is the state of the fabric as one cluster sees it.
type Report struct {
	ClusterID v1alpha1.ClusterID    `json:"clusterID"`
	Identity  v1alpha1.Identity     `json:"identity,omitempty"`
	Healthy   bool                  `json:"healthy"`
	Networks  []v1alpha1.OwnNetwork `json:"networks"`
	Nodes     []Node                `json:"nodes"`
	Clusters  []Cluster             `json:"clusters"`
	// Stale: weft-controller does not run, so nobody knows which clusters are
	// connected, which paths are up, and how far connections are.
	Stale bool `json:"stale,omitempty"`
	// Connections that this cluster makes between others.
	Connections []Connection `json:"connections"`
	Problems    []Problem    `json:"problems"`
}

// Node is a node of this cluster.
type Node struct {
	Name            string                `json:"name"`
	FabricAddress   string                `json:"fabricAddress,omitempty"`
	Gateway         int32                 `json:"gateway,omitempty"`
	UnderlayAddress string                `json:"underlayAddress,omitempty"`
	Pods            int                   `json:"pods"`
	WireGuard       []v1alpha1.LaneStatus `json:"wireguard,omitempty"`
	Ready           bool                  `json:"ready"`
}

// Cluster is another cluster as this one sees it.
type Cluster struct {
	Name      string                     `json:"name"`
	ClusterID v1alpha1.ClusterID         `json:"clusterID,omitempty"`
	Identity  v1alpha1.Identity          `json:"identity"`
	Connected bool                       `json:"connected"`
	Pods      v1alpha1.PodAccess         `json:"pods"`
	Networks  []v1alpha1.RemappedNetwork `json:"networks"`
	Paths     []Path                     `json:"paths"`
	// Direct: this cluster peers with it directly. ReachedThrough are the hubs and
	// IntroducedBy the connections ("introducer/connection") for whose sake
	// weft-controller made the object.
	Direct           bool     `json:"direct"`
	ReachedThrough   []string `json:"reachedThrough,omitempty"`
	IntroducedBy     []string `json:"introducedBy,omitempty"`
	AwaitingApproval bool     `json:"awaitingApproval,omitempty"`
}

// Problem is something wrong, and what to do about it.
type Problem struct {
	Object string `json:"object"`
	What   string `json:"what"`
	Do     string `json:"do"`
}

// Collect reads the input from the API server.
func Collect(ctx context.Context, c client.Reader) (Input, error) {
	in := Input{Now: time.Now()}
	var err error
	if in.Observed, err = install.Observe(ctx, c); err != nil {
		return in, err
	}
	var clusters v1alpha1.ForeignClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return in, kube.Explain(err, "list", "ForeignClusters")
	}
	var neighbors v1alpha1.NeighborList
	if err := c.List(ctx, &neighbors); err != nil {
		return in, kube.Explain(err, "list", "Neighbors")
	}
	var connections v1alpha1.ForeignClusterConnectionList
	// An installation of a former version lacks the kind.
	if err := c.List(ctx, &connections); err != nil && !kube.Missing(err) {
		return in, kube.Explain(err, "list", "ForeignClusterConnections")
	}
	in.Clusters, in.Neighbors, in.Connections = clusters.Items, neighbors.Items, connections.Items
	return in, nil
}

// Make turns the input into a report. It is pure.
func Make(in Input) Report {
	r := Report{
		ClusterID: in.Config.Spec.ClusterID, Identity: in.Config.Status.Identity, Networks: orEmpty(in.Config.Status.Networks),
		Nodes: []Node{}, Clusters: []Cluster{}, Connections: []Connection{}, Problems: orEmpty(problems(in)),
	}
	r.Healthy = len(r.Problems) == 0
	for i := range in.Nodes {
		r.Nodes = append(r.Nodes, makeNode(&in.Nodes[i]))
	}
	r.Stale = !measures(in)
	for i := range in.Clusters {
		c := makeCluster(&in.Clusters[i], in.Now)
		if r.Stale {
			c.forgetState()
		}
		r.Clusters = append(r.Clusters, c)
	}
	for i := range in.Connections {
		c := makeConnection(&in.Connections[i], in.Now)
		if r.Stale {
			c.forgetState()
		}
		r.Connections = append(r.Connections, c)
	}
	slices.SortFunc(r.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Connections, func(a, b Connection) int { return strings.Compare(a.Name, b.Name) })
	return r
}

func makeNode(n *v1alpha1.FabricNode) Node {
	return Node{
		Name: n.Name, FabricAddress: n.Spec.FabricAddress, Gateway: n.Spec.GatewayID,
		UnderlayAddress: n.Status.UnderlayAddress, Pods: len(n.Status.PodPrefixes), WireGuard: n.Status.Lanes,
		Ready: meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady),
	}
}

func makeCluster(fcl *v1alpha1.ForeignCluster, now time.Time) Cluster {
	connected, _ := peering.Connected(fcl)
	c := Cluster{
		Name: fcl.Name, ClusterID: fcl.Status.ClusterID, Identity: fcl.Spec.Identity, Connected: connected,
		Pods: fcl.Spec.Access.Pods, Networks: orEmpty(fcl.Status.Networks), Paths: []Path{}, Direct: fcl.Spec.Direct(),
		ReachedThrough: fcl.Spec.ReachedThrough, IntroducedBy: fcl.Spec.IntroducedBy, AwaitingApproval: !fcl.Spec.IsAccepted(),
	}
	for _, path := range fcl.Status.Paths {
		c.Paths = append(c.Paths, makePath(fcl, path, now))
	}
	return c
}

// measures reports whether weft-controller runs, which writes down what the agents
// measure: what it wrote before may have changed since.
func measures(in Input) bool {
	return !slices.ContainsFunc(in.Deployments, func(d appsv1.Deployment) bool {
		return d.Name == controller && d.Status.AvailableReplicas == 0
	})
}

// forgetState drops what is only known while somebody measures.
func (c *Cluster) forgetState() {
	c.Connected = false
	for i := range c.Paths {
		p := &c.Paths[i]
		p.State, p.Why = v1alpha1.PathUnknown, "not known while weft-controller does not run"
		p.RTTMilliseconds, p.LossPercent, p.SinceSeconds = 0, 0, 0
	}
}

// orEmpty keeps null out of the JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
