// Package dns makes the cluster's DNS forward clusterset.local to weft-dns, and
// says whether it does. It knows CoreDNS configured by a ConfigMap.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
)

const (
	// serverName is the Service, and the name label of the pods, of weft-dns.
	serverName = "weft-dns"
	nameLabel  = "app.kubernetes.io/name"

	corefileKey = "Corefile"
	// usualNamespace and usualName of CoreDNS's ConfigMap.
	usualNamespace = "kube-system"
	usualName      = "coredns"
	// nodeLocalName is the ConfigMap of NodeLocal DNSCache, which is CoreDNS as well
	// but not what the cluster's DNS address leads to.
	nodeLocalName = "node-local-dns"
	// addonMode is set where a managed cluster's own controller writes the ConfigMap
	// back.
	addonMode = "addonmanager.kubernetes.io/mode"
)

// ErrNoCoreDNS says that no ConfigMap is one of CoreDNS.
var ErrNoCoreDNS = errors.New("there is no CoreDNS")

// errNoServer says that the chart lacks weft-dns.
var errNoServer = errors.New("there is no Service weft-dns in namespace " + v1alpha1.SystemNamespace + ": run `weftctl install` first")

// server returns the address of weft-dns in this cluster.
func server(ctx context.Context, c client.Reader) (netip.Addr, error) {
	service := &corev1.Service{}
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: serverName}, service)
	if kube.Missing(err) {
		return netip.Addr{}, errNoServer
	}
	if err != nil {
		return netip.Addr{}, kube.Explain(err, "read", "Service "+serverName)
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("service %s has the ClusterIP %q, which is no address: repair it by `weftctl install`", serverName, service.Spec.ClusterIP)
	}
	return address, nil
}

// find returns the ConfigMap that named ("namespace/name") says, or the one in
// kube-system that has a Corefile.
func find(ctx context.Context, c client.Reader, named string) (*corev1.ConfigMap, error) {
	if named != "" {
		return findNamed(ctx, c, named)
	}
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(usualNamespace)); err != nil {
		return nil, kube.Explain(err, "list", "ConfigMaps in "+usualNamespace)
	}
	return choose(list.Items)
}

func findNamed(ctx context.Context, c client.Reader, named string) (*corev1.ConfigMap, error) {
	namespace, name, _ := strings.Cut(named, "/")
	found := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found); err != nil {
		return nil, kube.Explain(err, "read", "ConfigMap "+named)
	}
	if _, ok := found.Data[corefileKey]; !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %s, so it is not CoreDNS's: give another --configmap", named, corefileKey)
	}
	return found, nil
}

// choose picks CoreDNS's ConfigMap by its content, and the usual name if several
// have it. It is pure.
func choose(maps []corev1.ConfigMap) (*corev1.ConfigMap, error) {
	var found []*corev1.ConfigMap
	var names []string
	for i := range maps {
		if _, ok := maps[i].Data[corefileKey]; !ok || maps[i].Name == nodeLocalName {
			continue
		}
		if maps[i].Name == usualName {
			return &maps[i], nil
		}
		found, names = append(found, &maps[i]), append(names, fullName(&maps[i]))
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w: no ConfigMap in namespace %s has a Corefile. If it is elsewhere give --configmap NAMESPACE/NAME; "+
			"another DNS server has to be told by its own means to forward %s to the ClusterIP of Service weft-dns in namespace %s",
			ErrNoCoreDNS, usualNamespace, corefile.Zone, v1alpha1.SystemNamespace)
	case 1:
		return found[0], nil
	default:
		return nil, fmt.Errorf("several ConfigMaps have a Corefile (%s): say by --configmap which one the cluster's DNS uses", strings.Join(names, ", "))
	}
}

func fullName(c *corev1.ConfigMap) string { return c.Namespace + "/" + c.Name }

// nodeLocal says whether pods ask NodeLocal DNSCache, which has a configuration
// of its own.
func nodeLocal(ctx context.Context, c client.Reader) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Namespace: usualNamespace, Name: nodeLocalName}, &corev1.ConfigMap{})
	if kube.Missing(err) {
		return false, nil
	}
	return err == nil, kube.Explain(err, "read", "ConfigMap "+nodeLocalName)
}
