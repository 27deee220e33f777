package install

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func TestValuesFromFlags(t *testing.T) {
	values, err := Values(nil, Request{
		ClusterID: "a", PodCIDRs: []string{"10.244.0.0/16"}, GatewaySelector: map[string]string{"edge": "1"},
		Endpoints: []string{"gw.example.org"}, Image: "registry.example/weft:2", Set: []string{"agent.logLevel=debug"},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"image": map[string]any{"reference": "registry.example/weft:2"},
		"agent": map[string]any{"logLevel": "debug"},
		"fabric": map[string]any{
			"clusterID": "a",
			"networks":  []any{map[string]any{"name": "pods", "kind": "Pod", "cidrs": []any{"10.244.0.0/16"}}},
			"gateways": map[string]any{
				"selector": map[string]any{"edge": "1"}, "exposure": "Static", "endpoints": []any{"gw.example.org"},
			},
		},
	}, values)
}

// An upgrade that names nothing keeps what was configured and edited; a flag
// changes only what it names.
func TestValuesKeepWhatTheClusterHas(t *testing.T) {
	existing := &v1alpha1.FabricConfigSpec{
		ClusterID: "a",
		Networks: []v1alpha1.Network{
			{Name: "pods", Kind: v1alpha1.NetworkPod, CIDRs: []v1alpha1.CIDR{"10.244.0.0/16"}},
			{Name: "more", Kind: v1alpha1.NetworkPod, CIDRs: []v1alpha1.CIDR{"10.50.0.0/16"}},
		},
		Gateways: v1alpha1.GatewaySpec{Exposure: v1alpha1.ExposureNone},
	}
	values, err := Values(existing, Request{PodCIDRs: []string{"10.245.0.0/16"}})
	require.NoError(t, err)
	fabric := values["fabric"].(map[string]any)
	require.Equal(t, "a", fabric["clusterID"])
	require.Equal(t, map[string]any{"exposure": "None"}, fabric["gateways"])
	require.Equal(t, []any{
		map[string]any{"name": "more", "kind": "Pod", "cidrs": []any{"10.50.0.0/16"}},
		map[string]any{"name": "pods", "kind": "Pod", "cidrs": []any{"10.245.0.0/16"}},
	}, fabric["networks"])
}

// Files lie over what the cluster has, flags over files, --set over flags.
func TestValuesPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte("fabric: {clusterID: a, ports: {lane: 5000, overlay: 5001}}\nimage: {reference: from-file}\n"), 0o600))
	existing := &v1alpha1.FabricConfigSpec{ClusterID: "a", Ports: v1alpha1.PortsSpec{Lane: 4000, Agent: 4001}}
	values, err := Values(existing, Request{ValuesFiles: []string{file}, Image: "from-flag", Set: []string{"fabric.ports.overlay=6000"}})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"reference": "from-flag"}, values["image"])
	require.EqualValues(t, map[string]any{"lane": 5000.0, "overlay": int64(6000), "agent": 4001.0}, child(child(values, "fabric"), "ports"))
}

func TestValuesRefuseWithRemedy(t *testing.T) {
	existing := &v1alpha1.FabricConfigSpec{ClusterID: "a"}
	cases := map[string]struct {
		existing *v1alpha1.FabricConfigSpec
		request  Request
		want     []string
	}{
		"no ID":              {nil, Request{}, []string{"--cluster-id"}},
		"upper case":         {nil, Request{ClusterID: "Berlin"}, []string{"Berlin", "lower-case"}},
		"too long":           {nil, Request{ClusterID: "a2345678901234567890123456789012345678901"}, []string{"1 to 40 characters"}},
		"renamed":            {existing, Request{ClusterID: "b"}, []string{`"a" already`, "weftctl uninstall"}},
		"host bits":          {nil, Request{ClusterID: "a", PodCIDRs: []string{"10.244.0.1/16"}}, []string{"10.244.0.1/16", "10.244.0.0/16"}},
		"static w/o address": {nil, Request{ClusterID: "a", Exposure: "Static"}, []string{"--endpoint"}},
		"loopback endpoint":  {nil, Request{ClusterID: "a", Endpoints: []string{"127.0.0.1"}}, []string{"127.0.0.1"}},
		"bad --set":          {nil, Request{ClusterID: "a", Set: []string{"agent"}}, []string{"--set agent", "KEY=VALUE"}},
		"missing file":       {nil, Request{ClusterID: "a", ValuesFiles: []string{"/nonexistent.yaml"}}, []string{"--values", "/nonexistent.yaml"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Values(c.existing, c.request)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}
