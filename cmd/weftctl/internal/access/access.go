// Package access says what each foreign cluster may do in this one, as the
// grants result together, and accepts introductions.
package access

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

// Listing is what the foreign clusters may do in cluster ClusterID.
type Listing struct {
	ClusterID v1alpha1.ClusterID `json:"clusterID"`
	Clusters  []Cluster          `json:"clusters"`
}

// Cluster is a foreign cluster and what it may do here.
type Cluster struct {
	Name      string             `json:"name"`
	ClusterID v1alpha1.ClusterID `json:"clusterID,omitempty"`
	Identity  v1alpha1.Identity  `json:"identity"`
	Origin    Origin             `json:"origin"`
	// Direct: this cluster peers with it directly, or is about to.
	Direct bool `json:"direct"`
	// AwaitingApproval: an introduction waits for an admin of this cluster.
	AwaitingApproval bool                        `json:"awaitingApproval"`
	Pods             v1alpha1.PodAccess          `json:"pods"`
	Services         v1alpha1.ServicesSpec       `json:"services"`
	Transit          Transit                     `json:"transit"`
	UseAsHub         bool                        `json:"useAsHub"`
	Introductions    v1alpha1.IntroductionPolicy `json:"introductions"`
	Introduced       v1alpha1.PodAccess          `json:"introduced"`
	// Introduces says what became of the clusters that it introduces here.
	Introduces string `json:"introduces,omitempty"`
	// Standing introductions of the cluster by others.
	Standing []v1alpha1.IntroductionStatus `json:"standingIntroductions,omitempty"`
}

// Origin says who made the object.
type Origin struct {
	// MadeBy is MadeByAdmin or MadeByController.
	MadeBy string `json:"madeBy"`
	// ReachedThrough are hubs, IntroducedBy "introducer/connection".
	ReachedThrough []string `json:"reachedThrough,omitempty"`
	IntroducedBy   []string `json:"introducedBy,omitempty"`
}

// Who makes ForeignClusters.
const (
	MadeByAdmin      = "admin"
	MadeByController = "weft-controller"
)

// Transit is what a cluster exchanges with others through this one.
type Transit struct {
	// With are the clusters that it exchanges traffic with: either names the other.
	With []string `json:"with"`
	// Idle are names that its ForeignCluster gives without effect: this cluster does
	// not peer with them directly.
	Idle []string `json:"idle,omitempty"`
}

// Collect reads the listing from the API server: of all clusters, or of the one
// of that name if it is not empty.
func Collect(ctx context.Context, c client.Reader, name string) (Listing, error) {
	config, err := kube.FabricConfig(ctx, c)
	if err != nil {
		return Listing{}, err
	}
	var list v1alpha1.ForeignClusterList
	if err := c.List(ctx, &list); err != nil {
		return Listing{}, kube.Explain(err, "list", "ForeignClusters")
	}
	listing := Make(config.Spec.ClusterID, list.Items)
	if name == "" {
		return listing, nil
	}
	unknown := &peering.UnknownError{Name: name}
	for _, cluster := range listing.Clusters {
		if cluster.Name == name {
			listing.Clusters = []Cluster{cluster}
			return listing, nil
		}
		unknown.Others = append(unknown.Others, cluster.Name)
	}
	return listing, unknown
}

// Make turns the objects into a listing, by name. It is pure.
func Make(own v1alpha1.ClusterID, clusters []v1alpha1.ForeignCluster) Listing {
	listing := Listing{ClusterID: own, Clusters: []Cluster{}}
	for i := range clusters {
		fcl := &clusters[i]
		least := peering.Grants{}.Over(fcl.Spec.Access)
		listing.Clusters = append(listing.Clusters, Cluster{
			Name: fcl.Name, ClusterID: fcl.Status.ClusterID, Identity: fcl.Spec.Identity, Origin: originOf(fcl),
			Direct: fcl.Spec.Direct(), AwaitingApproval: !fcl.Spec.IsAccepted(),
			Pods: least.Pods, Services: least.Services, Transit: transitOf(fcl, clusters), UseAsHub: least.Transit.UseAsHub,
			Introductions: least.Introductions, Introduced: least.Introduced, Standing: fcl.Status.Introductions,
			Introduces: introduces(fcl),
		})
	}
	slices.SortFunc(listing.Clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return listing
}

func introduces(fcl *v1alpha1.ForeignCluster) string {
	if c := meta.FindStatusCondition(fcl.Status.Conditions, v1alpha1.ConditionIntroductions); c != nil {
		return c.Message
	}
	return ""
}

func originOf(fcl *v1alpha1.ForeignCluster) Origin {
	if fcl.Spec.MadeByAdmin() {
		return Origin{MadeBy: MadeByAdmin}
	}
	return Origin{MadeBy: MadeByController, ReachedThrough: fcl.Spec.ReachedThrough, IntroducedBy: fcl.Spec.IntroducedBy}
}

// transitOf returns with whom a cluster exchanges traffic through this one: a
// pair of direct peers is forwarded if either names the other.
func transitOf(fcl *v1alpha1.ForeignCluster, clusters []v1alpha1.ForeignCluster) Transit {
	transit := Transit{With: []string{}}
	for i := range clusters {
		other := &clusters[i]
		pair := other.Name != fcl.Name && fcl.Spec.Direct() && other.Spec.Direct()
		if pair && (names(fcl, other) || names(other, fcl)) {
			transit.With = append(transit.With, other.Name)
		}
	}
	for _, name := range fcl.Spec.Access.Transit.Neighbors {
		if name != peering.EveryNeighbor && !slices.Contains(transit.With, name) {
			transit.Idle = append(transit.Idle, name)
		}
	}
	slices.Sort(transit.With)
	slices.Sort(transit.Idle)
	return transit
}

// names reports whether a cluster's grant covers another; all are those that an
// admin made.
func names(fcl, other *v1alpha1.ForeignCluster) bool {
	neighbors := fcl.Spec.Access.Transit.Neighbors
	return slices.Contains(neighbors, other.Name) || other.Spec.MadeByAdmin() && slices.Contains(neighbors, peering.EveryNeighbor)
}
