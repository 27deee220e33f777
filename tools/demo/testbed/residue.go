package testbed

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// residue is a command that shows what is left.
type residue struct {
	what    string
	pattern string
	command []string
}

// residueOnNodes are commands whose output must not mention Weft, or, where a
// pattern is empty, must be empty.
var residueOnNodes = []residue{
	{"device", "weft", []string{"ip", "-o", "link"}},
	{"rule", "7077", []string{"ip", "rule"}},
	{"route", "", []string{"ip", "route", "show", "table", "7077"}},
	{"IPv6 route", "weft", []string{"ip", "-6", "route", "show", "table", "all"}},
	{"nftables table", "weft", []string{"nft", "list", "tables"}},
	{"pin", "weft", []string{"find", "/sys/fs/bpf"}},
	{"run file", "/", []string{"find", "/run/weft", "/var/run/wireguard", "-mindepth", "1"}},
	{"state file", "/", []string{"find", "/var/lib/weft", "-mindepth", "1"}},
}

// NodeResidue lists what Weft left on the cluster's nodes, one line each.
func (c *Cluster) NodeResidue(ctx context.Context) ([]string, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list the nodes of cluster %s: %w", c.Name, err)
	}
	var left []string
	for _, node := range nodes.Items {
		for _, probe := range residueOnNodes {
			// Some commands fail where there is nothing to list.
			out, _ := c.lab.Exec(ctx, node.Name, nil, probe.command...)
			for line := range strings.Lines(string(out)) {
				if line = strings.TrimSpace(line); line != "" && strings.Contains(line, probe.pattern) {
					left = append(left, fmt.Sprintf("node %s: %s: %s", node.Name, probe.what, line))
				}
			}
		}
	}
	return left, nil
}

// clusterKinds are those that an installation makes outside its namespace.
var clusterKinds = []schema.GroupVersionKind{
	{Group: "", Version: "v1", Kind: "Namespace"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"},
	{Group: "apps", Version: "v1", Kind: "DaemonSet"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "", Version: "v1", Kind: "ServiceAccount"},
	{Group: "", Version: "v1", Kind: "Secret"},
	{Group: "", Version: "v1", Kind: "ConfigMap"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
}

// APIResidue lists what Weft left in the API server, the API of services and the
// configuration of the cluster's DNS among it; test pods are not Weft's.
func (c *Cluster) APIResidue(ctx context.Context) ([]string, error) {
	var left []string
	for _, kind := range clusterKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s in cluster %s: %w", kind.Kind, c.Name, err)
		}
		for _, item := range list.Items {
			if item.GetName() == TrafficNamespace || item.GetNamespace() == TrafficNamespace {
				continue
			}
			if strings.Contains(item.GetName()+item.GetNamespace(), "weft") || strings.HasSuffix(item.GetName(), mcsv1beta1.GroupName) {
				left = append(left, fmt.Sprintf("%s %s/%s", kind.Kind, item.GetNamespace(), item.GetName()))
			}
			if corefile, _, _ := unstructured.NestedString(item.Object, "data", "Corefile"); strings.Contains(corefile, "weft") {
				left = append(left, "Corefile with Weft's block:\n"+corefile)
			}
		}
	}
	imported, err := c.ImportedResidue(ctx)
	return append(left, imported...), err
}

// ImportedResidue lists what Weft has made of services of other clusters.
func (c *Cluster) ImportedResidue(ctx context.Context) ([]string, error) {
	var left []string
	for _, kind := range []schema.GroupVersionKind{
		{Group: "", Version: "v1", Kind: "Service"},
		{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
		{Group: mcsv1beta1.GroupName, Version: mcsv1beta1.GroupVersion.Version, Kind: mcsv1beta1.ServiceImportKindName},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list, client.HasLabels{mcsv1beta1.LabelServiceName})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue // the CRD is gone, so its objects are
		}
		if err != nil {
			return nil, fmt.Errorf("list %s in cluster %s: %w", kind.Kind, c.Name, err)
		}
		for _, item := range list.Items {
			left = append(left, fmt.Sprintf("%s %s/%s", kind.Kind, item.GetNamespace(), item.GetName()))
		}
	}
	return left, nil
}

// PeeringResidue lists what a peering left besides PrefixClaims: foreign
// clusters, neighbors, and on the nodes routes, prefixes and grants.
func (c *Cluster) PeeringResidue(ctx context.Context) ([]string, error) {
	var left []string
	for _, list := range []client.ObjectList{&v1alpha1.ForeignClusterList{}, &v1alpha1.NeighborList{}} {
		err := c.List(ctx, list)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %T in cluster %s: %w", list, c.Name, err)
		}
		if n := meta.LenList(list); n > 0 {
			left = append(left, fmt.Sprintf("%T: %d", list, n))
		}
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list the nodes of cluster %s: %w", c.Name, err)
	}
	for _, node := range nodes.Items {
		for _, probe := range residueOfPeering {
			// Some commands fail where there is nothing to list.
			out, _ := c.lab.Exec(ctx, node.Name, nil, probe.command...)
			for line := range strings.Lines(string(out)) {
				line = strings.TrimSpace(line)
				if strings.Contains(line, probe.pattern) && !strings.Contains(line, "proto kernel") {
					left = append(left, fmt.Sprintf("node %s: %s: %s", node.Name, probe.what, line))
				}
			}
		}
	}
	return left, nil
}

// residueOfPeering are commands whose output must have no line with the
// pattern, those that the kernel made itself excepted.
var residueOfPeering = []residue{
	{"route", "via", []string{"ip", "route", "show", "table", "7077"}},
	{"channel route", "fd79:", []string{"ip", "-6", "route", "show", "dev", "weft0"}},
	{"foreign prefix", "elements", []string{"nft", "list", "set", "inet", "weft", "foreign"}},
	{"grant", "elements", []string{"nft", "list", "set", "inet", "weft", "granted"}},
}
