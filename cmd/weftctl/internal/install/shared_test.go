package install

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/tools/chart"
)

const imports, exports = "serviceimports.multicluster.x-k8s.io", "serviceexports.multicluster.x-k8s.io"

func crdNamed(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	m, err := chart.Render(nil, "v1.37.2")
	require.NoError(t, err)
	for _, object := range m.CRDs {
		if object.GetName() == name {
			return object
		}
	}
	t.Fatalf("the chart has no CRD %s", name)
	return nil
}

// CRDs that others installed stay as they are, in both directions; ours are
// marked, and come and go.
func TestSharedCRDs(t *testing.T) {
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	theirs := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: imports},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true}}},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(theirs).Build()
	var said []string
	for _, name := range []string{imports, exports} {
		require.NoError(t, applyCRD(t.Context(), c, crdNamed(t, name), func(line string) { said = append(said, line) }))
	}
	require.Len(t, said, 1)
	require.Contains(t, said[0], "does not serve v1beta1")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: imports}, crd))
	require.Equal(t, theirs.Spec, crd.Spec)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: exports}, crd))
	require.Equal(t, managedByWeft, crd.Labels[managedByLabel])
	require.Equal(t, "v0.5.2", crd.Labels["multicluster.x-k8s.io/release-version"])
	require.NoError(t, applyCRD(t.Context(), c, crdNamed(t, exports), quiet), "again")

	own, err := ownCRDs(t.Context(), c, []*unstructured.Unstructured{crdNamed(t, imports), crdNamed(t, exports), crdNamed(t, "neighbors.net.weft.dev")})
	require.NoError(t, err)
	require.Len(t, own, 2)
	require.Equal(t, exports, own[0].GetName())
}

// An uninstall takes what was derived from imports away, and users' Services stay.
func TestUninstallRemovesImports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t), time.Second)
		labels := map[string]string{managedByLabel: managedByWeft, mcsv1beta1.LabelServiceName: "web"}
		meta := func(name string, labels map[string]string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}
		}
		for _, object := range []client.Object{
			&corev1.Service{ObjectMeta: meta("derived-x", labels)}, &corev1.Service{ObjectMeta: meta("web", nil)},
			&discoveryv1.EndpointSlice{ObjectMeta: meta("derived-x-1", labels)}, &discoveryv1.EndpointSlice{ObjectMeta: meta("web-1", nil)},
		} {
			require.NoError(t, c.Create(t.Context(), object))
		}
		_, err := Uninstall(t.Context(), c, false, quiet)
		require.NoError(t, err)
		var services corev1.ServiceList
		var slices discoveryv1.EndpointSliceList
		require.NoError(t, c.List(t.Context(), &services))
		require.NoError(t, c.List(t.Context(), &slices))
		require.Len(t, services.Items, 1)
		require.Equal(t, "web", services.Items[0].Name)
		require.Len(t, slices.Items, 1)
		require.Equal(t, "web-1", slices.Items[0].Name)
	})
}

// A user's ServiceExports outlive Weft, and so does their CRD, though Weft has
// installed it; what Weft made goes, with its CRD.
func TestUninstallKeepsExports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t), time.Second)
		export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		made := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{
			managedByLabel: managedByWeft, mcsv1beta1.LabelServiceName: "web",
		}}}
		require.NoError(t, c.Create(t.Context(), export))
		require.NoError(t, c.Create(t.Context(), made))
		for _, name := range []string{imports, exports} {
			require.NoError(t, applyCRD(t.Context(), c, crdNamed(t, name), quiet))
		}
		left, err := Uninstall(t.Context(), c, false, quiet)
		require.NoError(t, err)
		require.Equal(t, Leftovers{CRDs: []string{exports}}, left)
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(export), export))
		require.True(t, kube.Missing(c.Get(t.Context(), client.ObjectKeyFromObject(made), made)))
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: exports}, crd))
		require.True(t, kube.Missing(c.Get(t.Context(), client.ObjectKey{Name: imports}, crd)))

		require.NoError(t, c.Delete(t.Context(), export))
		left, err = Uninstall(t.Context(), c, false, quiet)
		require.NoError(t, err)
		require.Empty(t, left)
		require.True(t, kube.Missing(c.Get(t.Context(), client.ObjectKey{Name: exports}, crd)), "nobody needs it any more")
	})
}
