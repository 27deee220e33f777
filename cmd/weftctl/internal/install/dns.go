package install

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

const dnsName = "weft-dns"

// disableDNS has the cluster's DNS forward nothing to weft-dns any more. What
// hinders it holds up no uninstall: it returns what is left to do, empty if
// nothing.
func disableDNS(ctx context.Context, c client.Client, progress wait.Progress) string {
	change, err := dns.Disable(ctx, c, dns.Options{})
	edited := &corefile.EditedError{}
	switch {
	case err == nil:
		if change.Changed {
			progress(fmt.Sprintf("ConfigMap %s does not forward %s any more", change.ConfigMap, corefile.Zone))
		}
		return ""
	case errors.Is(err, dns.ErrNoCoreDNS):
		if !servesDNS(ctx, c) {
			return ""
		}
		return fmt.Sprintf("there is no ConfigMap of CoreDNS in kube-system: if another DNS server was told to forward %s to weft-dns, take that out there", corefile.Zone)
	case errors.As(err, &edited):
		return fmt.Sprintf("somebody has changed Weft's block, line %d of the Corefile in CoreDNS's ConfigMap, so it stays: `weftctl dns disable --force` takes it out", edited.Line)
	}
	return fmt.Sprintf("%v; Weft's block, if it is there, stays: `weftctl dns disable` takes it out once that is repaired", err)
}

// servesDNS reports whether there is a weft-dns that something may forward to.
func servesDNS(ctx context.Context, c client.Reader) bool {
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: dnsName}, &corev1.Service{})
	return !kube.Missing(err)
}
