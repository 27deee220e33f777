package layout

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func spec(t *testing.T, o Options) Spec {
	t.Helper()
	if o.ProxyMode == "" {
		o.ProxyMode = "nftables"
	}
	s, err := NewSpec(o)
	require.NoError(t, err)
	return s
}

func TestClustersShareTheirCIDRsUnlessTold(t *testing.T) {
	s := spec(t, Options{Clusters: 3, Nodes: 2, PodCIDRs: map[string]string{"b": "10.1.0.0/16"}, NAT: []string{"c"}})
	require.Equal(t, "10.244.0.0/16", s.Clusters[0].PodCIDR.String())
	require.Equal(t, "10.1.0.0/16", s.Clusters[1].PodCIDR.String())
	require.Equal(t, "10.244.0.0/16", s.Clusters[2].PodCIDR.String())
	require.Equal(t, s.Clusters[0].ServiceCIDR, s.Clusters[2].ServiceCIDR)
	require.Equal(t, []bool{false, false, true}, []bool{s.Clusters[0].NAT, s.Clusters[1].NAT, s.Clusters[2].NAT})
	require.Equal(t, map[string]Link{"a-b": {}, "a-c": {}, "b-c": {}}, s.Links)
}

func TestPlanOfOneCluster(t *testing.T) {
	c := spec(t, Options{Clusters: 2, Nodes: 2}).Clusters[1]
	require.Equal(t, "10.96.0.1", c.ServiceAddress(1).String())
	require.Equal(t, "10.96.0.10", c.ServiceAddress(10).String())
	require.Equal(t, "https://172.31.2.11:6443", c.APIServerURL())
	require.Equal(t, []Node{
		{Cluster: "b", Index: 1, Name: "b1", Namespace: "weft-lab-b1", Device: "node-b1",
			Address: netip.MustParseAddr("172.31.2.11"), PodCIDR: netip.MustParsePrefix("10.244.0.0/24")},
		{Cluster: "b", Index: 2, Name: "b2", Namespace: "weft-lab-b2", Device: "node-b2",
			Address: netip.MustParseAddr("172.31.2.12"), PodCIDR: netip.MustParsePrefix("10.244.1.0/24")},
	}, c.NodeList())
}

func TestBiggestLabHasUniqueNamesAndAddresses(t *testing.T) {
	s := spec(t, Options{Clusters: MaxClusters, Nodes: MaxNodes})
	seen := map[string]bool{}
	once := func(name string) {
		require.False(t, seen[name], name)
		seen[name] = true
	}
	device := func(name string) { require.LessOrEqual(t, len(name), 15, "IFNAMSIZ") }
	for _, c := range s.Clusters {
		once(c.RouterNamespace())
		once(c.RouterAddress().String())
		once(c.ExternalAddress().String())
		device(VethDevice(c.Name))
		device(TUNDevice(c.Name, 1))
		for _, n := range c.NodeList() {
			once(n.Namespace)
			once(n.Address.String())
			device(n.Device)
			require.True(t, c.Underlay().Contains(n.Address))
			require.True(t, c.PodCIDR.Contains(n.PodCIDR.Addr()))
		}
	}
}

func TestWrongWishesAreRefusedWithARemedy(t *testing.T) {
	for want, o := range map[string]Options{
		"choose 1 to 26":         {Clusters: 27, Nodes: 1, ProxyMode: "nftables"},
		"choose 1 to 32":         {Clusters: 1, Nodes: 0, ProxyMode: "nftables"},
		"nftables or iptables":   {Clusters: 1, Nodes: 1, ProxyMode: "ipvs"},
		"clusters are a":         {Clusters: 1, Nodes: 1, ProxyMode: "nftables", NAT: []string{"z"}},
		"like 10.1.0.0/16":       {Clusters: 1, Nodes: 1, ProxyMode: "nftables", PodCIDRs: map[string]string{"a": "10.1.0.1/16"}},
		"/8 to /16":              {Clusters: 1, Nodes: 1, ProxyMode: "nftables", PodCIDRs: map[string]string{"a": "10.1.0.0/24"}},
		"overlaps the lab's":     {Clusters: 1, Nodes: 1, ProxyMode: "nftables", PodCIDRs: map[string]string{"a": "172.16.0.0/12"}},
		"overlap; choose others": {Clusters: 1, Nodes: 1, ProxyMode: "nftables", PodCIDRs: map[string]string{"a": "10.0.0.0/8"}},
		"use a /12 to /24":       {Clusters: 1, Nodes: 1, ProxyMode: "nftables", ServiceCIDRs: map[string]string{"a": "10.3.0.0/28"}},
	} {
		_, err := NewSpec(o)
		require.ErrorContains(t, err, want)
	}
}

func TestFindNode(t *testing.T) {
	s := spec(t, Options{Clusters: 2, Nodes: 2})
	n, err := s.FindNode("b2")
	require.NoError(t, err)
	require.Equal(t, "172.31.2.12", n.Address.String())
	_, err = s.FindNode("b3")
	require.ErrorContains(t, err, `no node "b3"`)
	require.Equal(t, LinkName("b", "a"), LinkName("a", "b"))
}
