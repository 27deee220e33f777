package testbed

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"
)

// The Service selects the Deployment's pods, and the export names the Service.
func TestManifestsFitTogether(t *testing.T) {
	parts := strings.Split(EchoService(3)+"---\n"+ServiceExport(ServiceName), "---\n")
	require.Len(t, parts, 3)
	var deployment appsv1.Deployment
	var service corev1.Service
	var export mcsv1beta1.ServiceExport
	for i, into := range []any{&deployment, &service, &export} {
		require.NoError(t, yaml.UnmarshalStrict([]byte(parts[i]), into))
	}
	require.EqualValues(t, 3, *deployment.Spec.Replicas)
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(deployment.Spec.Template.Labels)))
	require.Equal(t, service.Name, export.Name)
	require.Equal(t, service.Namespace, export.Namespace)
	require.EqualValues(t, 7000, service.Spec.Ports[0].Port)
	require.Equal(t, "multicluster.x-k8s.io/v1beta1", export.APIVersion)
}
