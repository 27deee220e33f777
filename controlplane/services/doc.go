// Package services joins the services of clusters (Multi-Cluster Services API,
// KEP-1645). The exporter tells peers what this cluster's ServiceExports say, each
// endpoint by its address here. The importer merges the exports of a name, this
// cluster's own among them, into a ServiceImport, and into a derived Service whose
// EndpointSlices hold every endpoint by its address in local view, so that
// kube-proxy or what stands in for it serves all clients.
//
// What is pure stands apart from what talks to the API server: Assess (objects ->
// export), Merge (exports -> import), planSlices (endpoints -> changes).
//
// Silence removes nothing. What a peer has exported is noted on its slices, so a
// controller that restarts while the peer is away goes on from there; only the
// peer's word, a policy here, or probes that are not answered take endpoints away.
package services

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// LabelManagedBy on ServiceImports and derived Services, and its value, which is
	// also that of the label endpointslice.kubernetes.io/managed-by.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "weft"
	// LabelSourceIdentity on EndpointSlices is the identity of the cluster whose
	// endpoints they hold. The standard label source-cluster has its local name.
	LabelSourceIdentity = "net.weft.dev/source-identity"
	// AnnotationExport on EndpointSlices is the export that they come from, as JSON.
	// It has backends while these are withheld.
	AnnotationExport = "net.weft.dev/export"
)

// Cluster is one that exports.
type Cluster struct {
	Identity v1alpha1.Identity
	// ID breaks ties between exports of the same second.
	ID v1alpha1.ClusterID
	// Name is local, and unique among those that count.
	Name string
}

// DerivedName is the name of the Service behind a ServiceImport.
func DerivedName(name types.NamespacedName) string {
	sum := sha256.Sum256([]byte(name.String()))
	return "derived-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:10]
}
