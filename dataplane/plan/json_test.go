package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMapsAsJSON(t *testing.T) {
	in := fixture()
	in.VNI = 1234567
	data, err := json.Marshal(built(t, in))
	require.NoError(t, err)
	require.NotContains(t, string(data), "1234567", "the VNI is a secret")
	require.Contains(t, string(data), `"mac":"`+MAC("a1").String()+`"`)
	require.Contains(t, string(data), `"publicKey":"`+publicKey(0xb1)+`"`)
	var p struct{ Maps map[string][]string }
	require.NoError(t, json.Unmarshal(data, &p))
	require.Equal(t, []string{
		"10.244.0.0/16: cluster 0 network 1", "100.70.0.0/16: cluster 5 network 1",
		"100.64.0.0/20: cluster 0 network 2", "100.71.0.0/20: cluster 5 network 2",
	}, p.Maps["view4"])
	require.Contains(t, p.Maps["rows4"], "link 1 ours cluster 5 network 1: local 100.70.0.0 wire 240.1.0.0 mask 255.255.0.0")
	require.Contains(t, p.Maps["places4"], "10.244.2.0/24: 192.168.0.2 flags 0")
}

// A prefix of the first level is one line, however many slots it fills.
func TestWidePrefixIsOneLine(t *testing.T) {
	in := fixture()
	in.Config.Status.Networks[0].CIDR = "10.128.0.0/9"
	in.Nodes[0].Status.PodPrefixes, in.Nodes[1].Status.PodPrefixes, in.Neighbors = nil, nil, nil
	p := built(t, in)
	require.Len(t, p.Maps.View4, 128+1)
	data, err := json.Marshal(p.Maps)
	require.NoError(t, err)
	require.Contains(t, string(data), `"view4":["10.128.0.0/9: cluster 0 network 1",`)
}
