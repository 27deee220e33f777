package source

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const patience = 10 * time.Second

const clusterYAML = `# two documents and a comment
apiVersion: net.weft.dev/v1alpha1
kind: FabricConfig
metadata: {name: default}
spec: {clusterID: a, ports: {lane: 5000}}
---
apiVersion: net.weft.dev/v1alpha1
kind: FabricNode
metadata: {name: a1}
spec: {fabricAddress: 100.64.0.1, gatewayID: 1}
status: {underlayAddress: 192.0.2.1}
`

const coreYAML = `apiVersion: v1
kind: Secret
metadata: {name: weft-overlay, namespace: weft-system}
data: {vni: MTIzNDU=}
---
apiVersion: v1
kind: Pod
metadata: {name: here, namespace: x}
spec: {nodeName: a1, containers: []}
status: {podIPs: [{ip: 10.244.1.9}, {ip: "fd00::9"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere, namespace: x}
spec: {nodeName: a2, containers: []}
status: {podIPs: [{ip: 10.244.2.9}]}
---
apiVersion: v1
kind: Pod
metadata: {name: on-the-host, namespace: x}
spec: {nodeName: a1, hostNetwork: true, containers: []}
status: {podIPs: [{ip: 192.0.2.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ended, namespace: x}
spec: {nodeName: a1, containers: []}
status: {phase: Succeeded, podIPs: [{ip: 10.244.1.8}]}
`

// put writes a file as the folder's users should: by rename.
func put(t *testing.T, folder, name, text string) {
	t.Helper()
	path := filepath.Join(folder, name)
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// follow runs a Directory until the test ends.
func follow(t *testing.T, folder string) *Directory {
	t.Helper()
	d := NewDirectory(folder, "a1", slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = d.Run(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
	return d
}

// until waits until the snapshot is as the test wants it.
func until(t *testing.T, s Source, ok func(Snapshot) bool) Snapshot {
	t.Helper()
	deadline := time.After(patience)
	for {
		if snapshot := s.Snapshot(); ok(snapshot) {
			return snapshot
		}
		select {
		case <-s.Changed():
		case <-deadline:
			require.FailNow(t, "the source did not change as expected", "%+v", s.Snapshot())
		}
	}
}

func TestDirectory(t *testing.T) {
	folder := t.TempDir()
	put(t, folder, "cluster.yaml", clusterYAML)
	put(t, folder, "core.yaml", coreYAML)
	d := follow(t, folder)
	s := until(t, d, func(s Snapshot) bool { return s.Synced() && s.PodsSynced })
	require.Equal(t, v1alpha1.ClusterID("a"), s.Config.Spec.ClusterID)
	require.Equal(t, v1alpha1.PortsSpec{Lane: 5000, Overlay: 4797, Agent: 9810, Metrics: 9813}, s.Config.Spec.Ports)
	require.Equal(t, v1alpha1.RoutingSpec{Table: 7077, RulePriority: 105}, s.Config.Spec.Routing)
	require.Equal(t, uint32(12345), s.VNI)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.244.1.9")}, s.Pods)

	require.NoError(t, d.WriteStatus(context.Background(), v1alpha1.FabricNodeStatus{UnderlayAddress: "192.0.2.77"}))
	s = until(t, d, func(s Snapshot) bool { return s.Nodes[0].Status.UnderlayAddress == "192.0.2.77" })
	require.Equal(t, int32(1), s.Nodes[0].Spec.GatewayID, "only the status comes from the status folder")

	require.NoError(t, os.Remove(filepath.Join(folder, "cluster.yaml")))
	until(t, d, func(s Snapshot) bool { return s.Synced() && s.Config == nil && len(s.Nodes) == 0 })
}

// A file that cannot be read keeps everything as it was; once it can, changes
// of all files count.
func TestBrokenFileChangesNothing(t *testing.T) {
	folder := t.TempDir()
	put(t, folder, "cluster.yaml", clusterYAML)
	d := follow(t, folder)
	before := until(t, d, func(s Snapshot) bool { return s.Config != nil })
	put(t, folder, "broken.yaml", "kind: Neighbor\nspec: {clusterIndex: many}\n")
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.problem != ""
	}, patience, time.Millisecond)
	require.NoError(t, os.Remove(filepath.Join(folder, "cluster.yaml")))
	d.read()
	require.Equal(t, before, d.Snapshot())
	require.NoError(t, os.Remove(filepath.Join(folder, "broken.yaml")))
	until(t, d, func(s Snapshot) bool { return s.Config == nil })
}

// A folder that cannot be read says nothing.
func TestMissingFolderIsNotEmpty(t *testing.T) {
	d := NewDirectory(filepath.Join(t.TempDir(), "missing"), "a1", slog.New(slog.DiscardHandler))
	d.read()
	s := d.Snapshot()
	require.False(t, s.Synced())
	require.Error(t, d.Run(context.Background()))
}

func TestLoadErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"unknown kind":  {"kind: Deployment\n", `kind "Deployment"`},
		"unknown field": {"kind: FabricNode\nspec: {fabricAdress: x}\n", "fabricAdress"},
		"no YAML":       {"a: [\n", "not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			put(t, folder, "x.yaml", c.text)
			_, err := load(folder, "a1")
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "x.yaml")
		})
	}
}

// What a Secret holds appears in no error.
func TestSecretStaysOutOfErrors(t *testing.T) {
	folder := t.TempDir()
	put(t, folder, "x.yaml", "kind: Secret\nmetadata: {name: weft-overlay}\ndata: {vni: hunter2}\n")
	_, err := load(folder, "a1")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}
