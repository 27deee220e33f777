package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
}

// Detect reads kubeadm's ConfigMap and the ServiceCIDR objects. Neither needs to
// exist. The reader must be uncached: the right is to read the one ConfigMap.
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
	return found, nil
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
