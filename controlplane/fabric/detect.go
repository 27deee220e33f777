package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/controlplane/ipam"
)

// Detected is what the cluster's own objects say of its networks.
type Detected struct {
	Pods     []netip.Prefix
	Services []netip.Prefix
	// APIServers are the addresses behind the Service default/kubernetes.
	APIServers []netip.Prefix
}

// Taken is all of it: nothing that a pool may give out.
func (d Detected) Taken() []netip.Prefix {
	return slices.Concat(d.Pods, d.Services, d.APIServers)
}

// Detect reads kubeadm's ConfigMap, the ServiceCIDR objects and where the API
// servers are. None of them needs to exist. The reader must be uncached: the
// right is to read two objects by name.
func Detect(ctx context.Context, reader client.Reader) (Detected, error) {
	var config corev1.ConfigMap
	var found Detected
	err := reader.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "kubeadm-config"}, &config)
	switch {
	case err == nil:
		found = fromKubeadm(config.Data["ClusterConfiguration"])
	case !absent(err):
		return Detected{}, fmt.Errorf("read ConfigMap kube-system/kubeadm-config: %w", err)
	}
	var services networkingv1.ServiceCIDRList
	if err := reader.List(ctx, &services); err != nil && !absent(err) {
		return Detected{}, fmt.Errorf("list service CIDRs: %w", err)
	}
	for i := range services.Items {
		found.Services = append(found.Services, ipam.ParsePrefixes(services.Items[i].Spec.CIDRs)...)
	}
	found.APIServers, err = apiServers(ctx, reader)
	return found, err
}

func apiServers(ctx context.Context, reader client.Reader) ([]netip.Prefix, error) {
	var slice discoveryv1.EndpointSlice // the API servers keep it, under this name
	err := reader.Get(ctx, types.NamespacedName{Namespace: "default", Name: "kubernetes"}, &slice)
	if err != nil && !absent(err) {
		return nil, fmt.Errorf("read EndpointSlice default/kubernetes: %w", err)
	}
	var addresses []netip.Prefix
	for _, endpoint := range slice.Endpoints {
		for _, text := range endpoint.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				addresses = append(addresses, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return addresses, nil
}

// absent reports that the cluster has no such object or kind (ServiceCIDR is
// stable since Kubernetes 1.33), or that the admin took the right to read it.
func absent(err error) bool {
	var discovery *meta.NoKindMatchError
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) || errors.As(err, &discovery)
}

func fromKubeadm(text string) Detected {
	var parsed struct {
		Networking struct {
			PodSubnet     string `json:"podSubnet"`
			ServiceSubnet string `json:"serviceSubnet"`
		} `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		return Detected{}
	}
	return Detected{
		Pods:     ipam.ParsePrefixes(split(parsed.Networking.PodSubnet)),
		Services: ipam.ParsePrefixes(split(parsed.Networking.ServiceSubnet)),
	}
}

// split reads the comma-separated CIDRs of a dual-stack cluster.
func split(list string) []string {
	var parts []string
	for _, part := range strings.Split(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
