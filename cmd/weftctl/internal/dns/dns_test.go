package dns

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/dns/corefile"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/dns/resolver"
)

const text = ".:53 {\n    kubernetes cluster.local\n    reload\n}\n"

func configMap(name, corefile string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{"k8s-app": "kube-dns"}},
		Data:       map[string]string{"Corefile": corefile, "NodeHosts": "10.0.0.1 one\n"},
	}
}

func weftDNS() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: "weft-dns"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.1.2"}}
}

func pod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "weft-system", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "weft-dns"}},
		Spec:       corev1.PodSpec{NodeName: "node-of-" + name},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func cluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// usual is a cluster as kubeadm makes it, with weft-dns on two nodes and a third
// pod that is not ready.
func usual(t *testing.T, corefile string, more ...client.Object) client.WithWatch {
	t.Helper()
	return cluster(t, append(more, configMap("coredns", corefile), weftDNS(),
		pod("one", corev1.ConditionTrue), pod("two", corev1.ConditionTrue), pod("starting", corev1.ConditionFalse))...)
}

func right(context.Context, string) (resolver.Report, error) {
	return resolver.Report{Servers: []string{"10.96.0.10:53"}, Asked: 8, Right: 8}, nil
}

func wrong(context.Context, string) (resolver.Report, error) {
	return resolver.Report{Servers: []string{"10.96.0.10:53"}, Asked: 8, Right: 3, Problem: "10.96.0.10:53 answers NXDOMAIN"}, nil
}

func corefileOf(t *testing.T, c client.Reader) string {
	t.Helper()
	found := &corev1.ConfigMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "coredns"}, found))
	require.Equal(t, "10.0.0.1 one\n", found.Data["NodeHosts"], "other keys stay")
	require.Equal(t, "kube-dns", found.Labels["k8s-app"], "labels stay")
	return found.Data["Corefile"]
}

type lines []string

func (l *lines) add(line string) { *l = append(*l, line) }

// Enabled: the block is there and answers are waited for. Again: nothing is
// written. Disabled: the Corefile is what it was. Again: nothing is written.
func TestEnableAndDisable(t *testing.T) {
	writes := 0
	c := interceptor.NewClient(usual(t, text), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, o, options...)
		},
	})
	var asked, progress lines
	first := true
	ask := func(ctx context.Context, pod string) (resolver.Report, error) {
		asked.add(pod)
		if first {
			first = false
			return wrong(ctx, pod)
		}
		return right(ctx, pod)
	}
	change, err := Enable(t.Context(), c, ask, Options{Wait: time.Minute}, progress.add)
	require.NoError(t, err)
	require.Equal(t, lines{"one", "two", "one", "two"}, asked)
	require.Equal(t, "kube-system/coredns", change.ConfigMap)
	require.Equal(t, "10.96.1.2", change.Server.String())
	require.True(t, change.Changed && change.Answers)
	require.Contains(t, corefileOf(t, c), "forward . 10.96.1.2\n")
	require.Equal(t, lines{
		"kube-system/coredns forwards clusterset.local to 10.96.1.2",
		"waiting for CoreDNS to reload its configuration, which takes up to two minutes: 11 of 16 test questions are answered so far",
	}, progress)

	change, err = Enable(t.Context(), c, nil, Options{}, progress.add)
	require.NoError(t, err)
	require.False(t, change.Changed || change.Answers)
	require.Equal(t, 1, writes)

	change, err = Disable(t.Context(), c, Options{})
	require.NoError(t, err)
	require.True(t, change.Changed)
	require.Equal(t, text, corefileOf(t, c))
	change, err = Disable(t.Context(), c, Options{})
	require.NoError(t, err)
	require.False(t, change.Changed)
	require.Equal(t, 2, writes)
}

// Somebody writes the ConfigMap at the same time: both changes stand.
func TestEnableBesideAnotherWriter(t *testing.T) {
	first := true
	c := interceptor.NewClient(usual(t, text), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if first {
				first = false
				other := &corev1.ConfigMap{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
					return err
				}
				other.Data["Corefile"] += "example.org {\n    whoami\n}\n"
				if err := c.Update(ctx, other); err != nil {
					return err
				}
			}
			return c.Update(ctx, o, options...)
		},
	})
	_, err := Enable(t.Context(), c, nil, Options{}, func(string) {})
	require.NoError(t, err)
	require.Contains(t, corefileOf(t, c), "forward . 10.96.1.2\n")
	require.Contains(t, corefileOf(t, c), "example.org {\n")
}

// No answer in time: the error says which pod heard what, and what to do.
func TestEnableInVain(t *testing.T) {
	for name, c := range map[string]struct {
		corefile string
		more     []client.Object
		ask      Asker
		want     []string
	}{
		"wrong answers": {text, nil, wrong, []string{"not done after 0s", "3 of 8 answers to one", "3 of 8 answers to two", "logs of CoreDNS", "weftctl dns check"}},
		"no reload":     {strings.Replace(text, "reload", "", 1), nil, wrong, []string{"rollout restart"}},
		"NodeLocal DNS": {text, []client.Object{configMap("node-local-dns", text)}, wrong, []string{"kube-system/node-local-dns"}},
		"proxy unreachable": {text, nil, func(context.Context, string) (resolver.Report, error) {
			return resolver.Report{}, errors.New("no route")
		}, []string{"no route"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Enable(t.Context(), usual(t, c.corefile, c.more...), c.ask, Options{Wait: 10 * time.Millisecond}, func(string) {})
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	_, err := Enable(t.Context(), cluster(t, configMap("coredns", text), weftDNS()), right, Options{Wait: time.Millisecond}, func(string) {})
	require.ErrorContains(t, err, "no pod of weft-dns is ready")
}

// The wait says what it is for, and no error where there is none.
func TestAwaited(t *testing.T) {
	asked := func(right int) Answer { return Answer{Pod: "one", Report: &resolver.Report{Asked: 8, Right: right}} }
	require.Equal(t, "waiting for a pod of weft-dns to be ready", awaited(nil, true))
	require.Equal(t, "waiting for the API server to reach pod two", awaited([]Answer{asked(8), {Pod: "two", Problem: "no route"}}, true))
	require.Contains(t, awaited([]Answer{asked(0)}, true), "to reload its configuration, which takes up to two minutes: 0 of 8 ")
	require.Contains(t, awaited([]Answer{asked(8), asked(3)}, false), "to be restarted: 11 of 16 ")
}

// What stands in the way is said, with the remedy, and nothing is written.
func TestEnableRefused(t *testing.T) {
	managed := configMap("coredns", text)
	managed.Labels["addonmanager.kubernetes.io/mode"] = "Reconcile"
	headless := weftDNS()
	headless.Spec.ClusterIP = "None"
	for name, c := range map[string]struct {
		objects []client.Object
		options Options
		want    string
	}{
		"not installed":       {[]client.Object{configMap("coredns", text)}, Options{}, "weftctl install"},
		"no address":          {[]client.Object{configMap("coredns", text), headless}, Options{}, `"None"`},
		"no CoreDNS":          {[]client.Object{weftDNS()}, Options{}, "there is no CoreDNS"},
		"NodeLocal DNS alone": {[]client.Object{weftDNS(), configMap("node-local-dns", text)}, Options{}, "there is no CoreDNS"},
		"several":             {[]client.Object{weftDNS(), configMap("a", text), configMap("b", text)}, Options{}, "kube-system/a, kube-system/b"},
		"named and missing":   {[]client.Object{weftDNS(), configMap("coredns", text)}, Options{ConfigMap: "dns/x"}, "ConfigMap dns/x"},
		"named, another": {
			[]client.Object{weftDNS(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "dns", Name: "x"}}},
			Options{ConfigMap: "dns/x"}, "no key Corefile",
		},
		"broken":   {[]client.Object{weftDNS(), configMap("coredns", ".:53 {\n")}, Options{}, "kube-system/coredns: line 1 of the Corefile"},
		"conflict": {[]client.Object{weftDNS(), configMap("coredns", text+"clusterset.local {\n}\n")}, Options{}, "line 5 of the Corefile"},
		"managed":  {[]client.Object{weftDNS(), managed}, Options{}, "clusterset.local:53 {\n"},
	} {
		t.Run(name, func(t *testing.T) {
			played := interceptor.NewClient(cluster(t, c.objects...), interceptor.Funcs{
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
					t.Error("it wrote")
					return nil
				},
			})
			_, err := Enable(t.Context(), played, right, c.options, func(string) {})
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A user who may not write learns so.
func TestEnableForbidden(t *testing.T) {
	c := interceptor.NewClient(usual(t, text), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "coredns", errors.New("read only"))
		},
	})
	_, err := Enable(t.Context(), c, right, Options{}, func(string) {})
	require.ErrorContains(t, err, "write ConfigMap kube-system/coredns")
	require.ErrorContains(t, err, "use a kubeconfig whose user may do this")
}

// CoreDNS by another name is found by what is in its ConfigMap.
func TestFindByContent(t *testing.T) {
	c := cluster(t, weftDNS(), configMap("rke2-coredns-rke2-coredns", text), configMap("node-local-dns", text))
	found, err := find(t.Context(), c, "")
	require.NoError(t, err)
	require.Equal(t, "rke2-coredns-rke2-coredns", found.Name)
}

// Every combination of block and answers that asks for another remedy.
func TestCheck(t *testing.T) {
	f, err := corefile.Parse(text)
	require.NoError(t, err)
	enabled, err := f.Enable(mustServer(t), false)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		corefile string
		ask      Asker
		block    corefile.State
		problems []string
	}{
		"all well":          {enabled, right, corefile.Present, nil},
		"another way":       {text, right, corefile.Absent, nil},
		"not enabled":       {text, wrong, corefile.Absent, []string{"run `weftctl dns enable`", "3 of 8"}},
		"not in force yet":  {enabled, wrong, corefile.Present, []string{"logs of CoreDNS"}},
		"other address":     {strings.Replace(enabled, "10.96.1.2", "10.96.9.9", 1), right, corefile.Edited, []string{"--force"}},
		"by hand":           {strings.Replace(enabled, "cache 5", "cache 60", 1), right, corefile.Edited, []string{"--force"}},
		"other port by now": {strings.Replace(enabled, ".:53", ".:5353", 1), right, corefile.Present, []string{"not what it should be"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Check(t.Context(), usual(t, c.corefile), c.ask, "")
			require.NoError(t, err)
			require.Equal(t, c.block, r.Block)
			require.Len(t, r.Problems, len(c.problems), r.Problems)
			for i, want := range c.problems {
				require.Contains(t, r.Problems[i], want)
			}
			require.Equal(t, len(c.problems) == 0, r.Healthy)
			var out bytes.Buffer
			r.Text(&out)
			require.Contains(t, out.String(), "kube-system/coredns")
			require.Equal(t, r.Healthy, strings.Contains(out.String(), "The cluster's DNS answers"))
		})
	}
}

func mustServer(t *testing.T) netip.Addr {
	t.Helper()
	address, err := server(t.Context(), cluster(t, weftDNS()))
	require.NoError(t, err)
	return address
}
