package render

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/tools/lab/layout"
)

func testCluster(t *testing.T) layout.Cluster {
	t.Helper()
	spec, err := layout.NewSpec(layout.Options{Clusters: 2, Nodes: 2, ProxyMode: "nftables", PodCIDRs: map[string]string{"b": "10.1.0.0/16"}})
	require.NoError(t, err)
	return spec.Clusters[1]
}

func TestNodeFiles(t *testing.T) {
	c := testCluster(t)
	files, err := Node{Cluster: c, Node: c.NodeList()[1], ProxyMode: "nftables", PKI: "/lab/pki", Folder: "/lab/b2", MTU: 1500}.Files()
	require.NoError(t, err)
	byName := map[string][]byte{}
	for _, f := range files {
		require.NotEmpty(t, f.Data, f.Name)
		byName[f.Name] = f.Data
	}
	var kubelet struct {
		Kind, ResolvConf string
		ClusterDNS       []string
		Authentication   struct{ X509 struct{ ClientCAFile string } }
	}
	require.NoError(t, yaml.Unmarshal(byName["kubelet.yaml"], &kubelet))
	require.Equal(t, "KubeletConfiguration", kubelet.Kind)
	require.Equal(t, []string{"10.96.0.10"}, kubelet.ClusterDNS)
	require.Equal(t, "/lab/pki/ca.crt", kubelet.Authentication.X509.ClientCAFile)
	require.Equal(t, "/lab/b2/resolv.conf", kubelet.ResolvConf)

	var proxy struct{ Mode, HostnameOverride, ClusterCIDR string }
	require.NoError(t, yaml.Unmarshal(byName["kube-proxy.yaml"], &proxy))
	require.Equal(t, "nftables", proxy.Mode)
	require.Equal(t, "b2", proxy.HostnameOverride)
	require.Equal(t, "10.1.0.0/16", proxy.ClusterCIDR)

	var cni struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	require.NoError(t, json.Unmarshal(byName["etc/cni/net.d/10-lab.conflist"], &cni))
	require.Equal(t, "bridge", cni.Plugins[0].Type)
	require.Equal(t, "10.1.1.0/24", cni.Plugins[0].IPAM.Ranges[0][0].Subnet)

	require.Contains(t, string(byName["etc/containerd/config.toml"]), `sandbox_image = "`+PauseImage+`"`)
	require.Contains(t, string(byName["masquerade.nft"]), "ip saddr 10.1.0.0/16 ip daddr != 10.1.0.0/16")
}

func TestManifestsAreSeparateDocuments(t *testing.T) {
	text, err := Manifests{Cluster: testCluster(t), Version: "v1.2.3"}.Render()
	require.NoError(t, err)
	objects := map[string]map[string]any{}
	for _, document := range strings.Split(string(text), "\n---\n") {
		var o map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &o))
		metadata := o["metadata"].(map[string]any)
		objects[o["kind"].(string)+"/"+metadata["name"].(string)] = o
	}
	require.Len(t, objects, 9)
	require.Equal(t, "10.1.1.0/24", objects["Node/b2"]["spec"].(map[string]any)["podCIDR"])
	require.Contains(t, objects["Node/b1"]["metadata"].(map[string]any)["labels"], "node-role.kubernetes.io/control-plane")
	require.NotContains(t, objects["Node/b2"]["metadata"].(map[string]any)["labels"], "node-role.kubernetes.io/control-plane")
	require.Equal(t, "10.96.0.10", objects["Service/kube-dns"]["spec"].(map[string]any)["clusterIP"])

	var kubeadm struct {
		KubernetesVersion string
		Networking        struct{ PodSubnet, ServiceSubnet string }
	}
	data := objects["ConfigMap/kubeadm-config"]["data"].(map[string]any)["ClusterConfiguration"].(string)
	require.NoError(t, yaml.Unmarshal([]byte(data), &kubeadm))
	require.Equal(t, "v1.2.3", kubeadm.KubernetesVersion)
	require.Equal(t, "10.1.0.0/16", kubeadm.Networking.PodSubnet)
	require.Equal(t, "10.96.0.0/16", kubeadm.Networking.ServiceSubnet)
}

func TestKubeconfigRoundTrip(t *testing.T) {
	text, err := Kubeconfig{Name: "b", Server: "https://127.0.0.1:26442", User: "b-admin",
		CAPEM: []byte("ca"), CertPEM: []byte("cert"), Key: []byte("key")}.Render()
	require.NoError(t, err)
	var config struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Key []byte `json:"client-key-data"`
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &config))
	require.Equal(t, "b", config.CurrentContext)
	require.Equal(t, "https://127.0.0.1:26442", config.Clusters[0].Cluster.Server)
	require.Equal(t, "ca", string(config.Clusters[0].Cluster.CA))
	require.Equal(t, "key", string(config.Users[0].User.Key))
}

func TestWANDelaysHalfTheRoundTripEachWay(t *testing.T) {
	spec, err := layout.NewSpec(layout.Options{Clusters: 2, Nodes: 1, ProxyMode: "nftables"})
	require.NoError(t, err)
	d := WAN(spec.Clusters[0], spec.Clusters[1], layout.Link{RTT: 25 * time.Millisecond, Generation: 1}, "/lab/lab")
	require.Equal(t, "wan-a-b-1", d.Name)
	require.Equal(t, []string{"/lab/lab", "wan",
		"--namespace-a=weft-lab-a-router", "--device-a=wan-b-1",
		"--namespace-b=weft-lab-b-router", "--device-b=wan-a-1", "--delay=12.5ms"}, d.Args)
}

func TestNATNamesUnderlayAndExternalAddress(t *testing.T) {
	rules, err := NAT(testCluster(t))
	require.NoError(t, err)
	require.Contains(t, string(rules), "ip saddr 172.31.2.0/24 oifname != \"nodes\" snat to 172.30.0.2")
}
