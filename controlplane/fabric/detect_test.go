package fabric

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestDetect(t *testing.T) {
	kubeadm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "networking:\n  podSubnet: 10.244.0.0/16\n"},
	}
	services := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	api := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.5.0.10"}}},
	}
	got, err := Detect(t.Context(), fake.NewClientBuilder().WithObjects(kubeadm, services, api).Build())
	require.NoError(t, err)
	require.Equal(t, Detected{Pods: prefixes("10.244.0.0/16"), Services: prefixes("10.96.0.0/16"), APIServers: prefixes("10.5.0.10/32")}, got)
	require.Equal(t, prefixes("10.244.0.0/16", "10.96.0.0/16", "10.5.0.10/32"), got.Taken())

	got, err = Detect(t.Context(), fake.NewClientBuilder().Build())
	require.NoError(t, err)
	require.Empty(t, got.Taken(), "none of it needs to exist")
}

// A right that the admin took is as if the object were not there; an API server
// that cannot answer is an error.
func TestDetectErrors(t *testing.T) {
	failing := func(err error) client.Client {
		return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			},
		}).Build()
	}
	_, err := Detect(t.Context(), failing(apierrors.NewForbidden(schema.GroupResource{}, "x", nil)))
	require.NoError(t, err)
	_, err = Detect(t.Context(), failing(apierrors.NewServiceUnavailable("down")))
	require.ErrorContains(t, err, "kubeadm-config")
}
