// Package peering makes two clusters known to each other, and takes that back.
package peering

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

// Self is a cluster as it presents itself to a peer.
type Self struct {
	ClusterID v1alpha1.ClusterID
	Identity  v1alpha1.Identity
	// Record is the signed record, a line of text.
	Record string
	// Gateways that the record lists.
	Gateways int
	// Reachable is true if the record names an endpoint to dial.
	Reachable bool
	// LanePort is the UDP port that a firewall must let in.
	LanePort int32
}

// ReadSelf returns what the cluster says of itself. The error says what is
// missing while its record is not complete.
func ReadSelf(ctx context.Context, c client.Reader) (Self, error) {
	config, err := kube.FabricConfig(ctx, c)
	if err != nil {
		return Self{}, err
	}
	return selfOf(config)
}

func selfOf(config *v1alpha1.FabricConfig) (Self, error) {
	self := Self{ClusterID: config.Spec.ClusterID, Identity: config.Status.Identity, Record: config.Status.Record, LanePort: config.Spec.Ports.Lane}
	if self.Record == "" {
		return self, fmt.Errorf("cluster %s has no record yet: wait for weft-controller, `weftctl status` says what it lacks", self.ClusterID)
	}
	record, err := identity.ParseRecord(self.Record)
	if err != nil {
		return self, fmt.Errorf("read the record of cluster %s: %w", self.ClusterID, err)
	}
	self.Identity = record.Identity()
	self.Gateways = len(record.Gateways)
	if self.Gateways == 0 {
		return self, fmt.Errorf("cluster %s has no gateway yet: wait for its agents, `weftctl status` says what they lack", self.ClusterID)
	}
	for _, gateway := range record.Gateways {
		self.Reachable = self.Reachable || len(gateway.Endpoints) > 0
	}
	return self, nil
}

// ForeignCluster returns the object that makes this cluster known to another,
// under the local name there and with the access that it gets there.
func (s Self) ForeignCluster(name string, access v1alpha1.AccessSpec) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "ForeignCluster",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"identity": string(s.Identity), "record": s.Record, "access": plain(access)},
	}}
}

// plain returns the access as it stands in YAML, without what is left out.
func plain(access v1alpha1.AccessSpec) map[string]any {
	fields := map[string]any{}
	for name, value := range map[string]string{
		"pods": string(access.Pods), "introductions": string(access.Introductions), "introduced": string(access.Introduced),
	} {
		if value != "" {
			fields[name] = value
		}
	}
	services := map[string]any{}
	for name, value := range map[string]v1alpha1.ServicePolicy{"export": access.Services.Export, "import": access.Services.Import} {
		if value != "" {
			services[name] = string(value)
		}
	}
	for name, list := range map[string][]string{"exportNamespaces": access.Services.ExportNamespaces, "importNamespaces": access.Services.ImportNamespaces} {
		if len(list) > 0 {
			services[name] = anyOf(list)
		}
	}
	if len(services) > 0 {
		fields["services"] = services
	}
	transit := map[string]any{}
	if access.Transit.UseAsHub {
		transit["useAsHub"] = true
	}
	if len(access.Transit.Neighbors) > 0 {
		transit["neighbors"] = anyOf(access.Transit.Neighbors)
	}
	if len(transit) > 0 {
		fields["transit"] = transit
	}
	return fields
}

func anyOf(list []string) []any {
	out := make([]any, 0, len(list))
	for _, item := range list {
		out = append(out, item)
	}
	return out
}

// Known returns the ForeignCluster by which c knows the identity, nil if it
// does not know it.
func Known(ctx context.Context, c client.Reader, id v1alpha1.Identity) (*v1alpha1.ForeignCluster, error) {
	var list v1alpha1.ForeignClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, kube.Explain(err, "list", "ForeignClusters")
	}
	for i := range list.Items {
		if list.Items[i].Spec.Identity == id {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// Named returns the ForeignCluster of that name. If there is none the error
// names those that there are.
func Named(ctx context.Context, c client.Reader, name string) (*v1alpha1.ForeignCluster, error) {
	var list v1alpha1.ForeignClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, kube.Explain(err, "list", "ForeignClusters")
	}
	unknown := &UnknownError{Name: name}
	for i := range list.Items {
		if list.Items[i].Name == name {
			return &list.Items[i], nil
		}
		unknown.Others = append(unknown.Others, list.Items[i].Name)
	}
	return nil, unknown
}

// UnknownError says that there is no ForeignCluster of that name.
type UnknownError struct {
	Name   string
	Others []string
}

func (e *UnknownError) Error() string {
	if len(e.Others) == 0 {
		return fmt.Sprintf("there is no ForeignCluster %s here, nor any other: check --kubeconfig and --context", e.Name)
	}
	return fmt.Sprintf("there is no ForeignCluster %s here, only %s: give the name of one that is here", e.Name, strings.Join(e.Others, ", "))
}

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
