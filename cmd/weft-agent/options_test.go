package main

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAgentOptions(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		options options
		says    string
	}{
		"no node name":       {options{directory: "x"}, "set --node-name or NODE_NAME"},
		"no address":         {options{node: "a1", directory: "x", underlay: "eth0"}, `--underlay-address "eth0" is not an IPv4 address`},
		"IPv6 address":       {options{node: "a1", directory: "x", underlay: "fd00::1"}, "is not an IPv4 address"},
		"missing kubeconfig": {options{node: "a1", kubeconfig: "/does/not/exist"}, "find the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.options.agentOptions(log)
			require.ErrorContains(t, err, c.says)
		})
	}
	o := options{node: "a1", directory: "x", underlay: "192.0.2.1", pinRoot: "p", stateDir: "s", runDir: "r"}
	got, err := o.agentOptions(log)
	require.NoError(t, err)
	require.Equal(t, netip.MustParseAddr("192.0.2.1"), got.Underlay)
	require.Equal(t, []string{"a1", "p", "s", "r"}, []string{got.Node, got.PinRoot, got.StateDir, got.RunDir})
}

// `weft-agent plan` on a directory prints the plan and touches nothing.
func TestPlanCommand(t *testing.T) {
	folder, pins := t.TempDir(), filepath.Join(t.TempDir(), "pins")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cluster.yaml"), []byte(`kind: FabricConfig
metadata: {name: default}
spec: {clusterID: a}
status: {networks: [{name: nodes, kind: Node, cidr: 100.64.0.0/20, index: 2}]}
---
kind: FabricNode
metadata: {name: a1}
spec: {fabricAddress: 100.64.0.1}
---
kind: Secret
metadata: {name: weft-overlay}
stringData: {vni: "123456"}
`), 0o600))
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"plan", "--node-name", "a1", "--directory", folder, "--underlay-address", "127.0.0.1", "--pin-root", pins, "--state-dir", pins, "--run-dir", pins})
	require.NoError(t, cmd.Execute())
	require.Contains(t, out.String(), `"fabricAddress": "100.64.0.1"`)
	require.NotContains(t, out.String(), "123456")
	require.NoDirExists(t, pins)
}
