package source

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/crds"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// A FabricConfig from a directory gets the defaults that the API server would
// take from the CRD.
func TestDefaultsAreThoseOfTheCRD(t *testing.T) {
	document, err := crds.Files.ReadFile("net.weft.dev_fabricconfigs.yaml")
	require.NoError(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.Unmarshal(document, &crd))
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]

	var spec v1alpha1.FabricConfigSpec
	setDefaults(&spec)
	for _, field := range []struct {
		path []string
		have any
	}{
		{[]string{"wirePools"}, spec.WirePools},
		{[]string{"ports", "lane"}, spec.Ports.Lane},
		{[]string{"ports", "overlay"}, spec.Ports.Overlay},
		{[]string{"ports", "agent"}, spec.Ports.Agent},
		{[]string{"ports", "metrics"}, spec.Ports.Metrics},
		{[]string{"routing", "table"}, spec.Routing.Table},
		{[]string{"routing", "rulePriority"}, spec.Routing.RulePriority},
	} {
		at := schema
		for _, name := range field.path {
			at = at.Properties[name]
		}
		require.NotNil(t, at.Default, field.path)
		have, err := json.Marshal(field.have)
		require.NoError(t, err)
		require.JSONEq(t, string(at.Default.Raw), string(have), field.path)
	}
}
