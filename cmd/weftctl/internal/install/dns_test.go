package install

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns"
)

const plain = ".:53 {\n    kubernetes cluster.local\n    reload\n}\n"

func corednsMap(corefile string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "coredns"}, Data: map[string]string{"Corefile": corefile}}
}

func weftDNS() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: dnsName}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.1.2"}}
}

// The block in the Corefile goes before the Service that it leads to.
func TestUninstallDisablesDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t), time.Second)
		coredns := corednsMap(plain)
		require.NoError(t, c.Create(t.Context(), coredns))
		require.NoError(t, c.Create(t.Context(), weftDNS()))
		_, err := dns.Enable(t.Context(), c, nil, dns.Options{}, quiet)
		require.NoError(t, err)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(coredns), coredns))
		require.NotEqual(t, plain, coredns.Data["Corefile"])

		var said []string
		left, err := Uninstall(t.Context(), c, false, func(line string) { said = append(said, line) })
		require.NoError(t, err)
		require.Empty(t, left)
		require.Contains(t, said, "ConfigMap kube-system/coredns does not forward clusterset.local any more")
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(coredns), coredns))
		require.Equal(t, plain, coredns.Data["Corefile"])
		require.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(weftDNS()), weftDNS()))
	})
}

// Whatever is wrong with the cluster's DNS is told and holds up nothing.
func TestUninstallIsNotHeldUpByDNS(t *testing.T) {
	for name, test := range map[string]struct {
		coredns *corev1.ConfigMap
		enable  bool
		edit    string
		want    string
	}{
		"no CoreDNS":            {want: "if another DNS server was told to forward clusterset.local"},
		"no Corefile":           {coredns: corednsMap("{{{"), want: "`weftctl dns disable` takes it out once that is repaired"},
		"somebody changed ours": {coredns: corednsMap(plain), enable: true, edit: "10.96.1.9", want: "`weftctl dns disable --force`"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := released(t, installed(t), time.Second)
				require.NoError(t, c.Create(t.Context(), weftDNS()))
				if test.coredns != nil {
					require.NoError(t, c.Create(t.Context(), test.coredns))
				}
				if test.enable {
					_, err := dns.Enable(t.Context(), c, nil, dns.Options{}, quiet)
					require.NoError(t, err)
					require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(test.coredns), test.coredns))
					test.coredns.Data["Corefile"] = replace(t, test.coredns.Data["Corefile"], "10.96.1.2", test.edit)
					require.NoError(t, c.Update(t.Context(), test.coredns))
				}
				left, err := Uninstall(t.Context(), c, false, quiet)
				require.NoError(t, err)
				require.Contains(t, left.DNS, test.want)
				require.Zero(t, remainingObjects(t, c))
			})
		})
	}
}

func replace(t *testing.T, text, from, to string) string {
	t.Helper()
	require.Contains(t, text, from)
	return strings.ReplaceAll(text, from, to)
}
