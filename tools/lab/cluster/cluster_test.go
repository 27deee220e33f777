package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/tools/lab/kubeapi"
	"github.com/weft-fabric/weft/tools/lab/layout"
)

func TestNotReadyNamesTheNodesAndWhy(t *testing.T) {
	c := layout.Cluster{Name: "a", Index: 1, Nodes: 3, PodCIDR: layout.DefaultPodCIDR}
	node := func(name, status, message string) kubeapi.Node {
		n := kubeapi.Node{}
		n.Metadata.Name = name
		n.Status.Conditions = []kubeapi.Condition{{Type: "Ready", Status: status, Message: message}}
		return n
	}
	err := notReady(c, []kubeapi.Node{node("a1", "True", ""), node("a2", "False", "cni plugin not initialized")})
	require.ErrorContains(t, err, "a2 (cni plugin not initialized), a3")
	require.NotContains(t, err.Error(), "a1")
	require.NoError(t, notReady(c, []kubeapi.Node{node("a1", "True", ""), node("a2", "True", ""), node("a3", "True", "")}))
}

func TestWaitForTellsTheLastError(t *testing.T) {
	cause := errors.New("connection refused")
	err := waitFor(t.Context(), 20*time.Millisecond, time.Millisecond, func(context.Context) error { return cause })
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "not within 20ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = waitFor(ctx, time.Minute, time.Millisecond, func(context.Context) error { return cause })
	require.ErrorIs(t, err, context.Canceled)
}

func TestStateIsKeptAndAnotherWishRefused(t *testing.T) {
	l := &Lab{Folders: layout.Folders{Root: t.TempDir()}, out: &bytes.Buffer{}}
	require.ErrorIs(t, l.load(), ErrNoLab)
	wishes := layout.Options{Clusters: 2, Nodes: 1, ProxyMode: "nftables", NAT: []string{"b"}}
	require.NoError(t, l.decide(wishes, true))

	again := &Lab{Folders: l.Folders, out: &bytes.Buffer{}}
	require.NoError(t, again.decide(layout.Options{Clusters: 9, Nodes: 9, ProxyMode: "nftables"}, false), "no wish keeps what exists")
	require.Equal(t, l.Spec, again.Spec)
	require.NoError(t, again.decide(wishes, true))
	wishes.Nodes = 2
	require.ErrorContains(t, again.decide(wishes, true), "run lab down first")

	require.NoError(t, os.WriteFile(l.Folders.State(), []byte("{"), 0o600))
	require.ErrorContains(t, again.load(), "run lab down")
}

func TestLockIsHeldByOneAtATime(t *testing.T) {
	folders := layout.Folders{Root: t.TempDir() + "/lab"}
	held := make(chan func(), 3)
	for range 3 {
		go func() {
			l := &Lab{Folders: folders, out: &bytes.Buffer{}}
			unlock, err := l.lock()
			if err == nil {
				held <- unlock
			}
		}()
	}
	for range 3 {
		unlock := <-held
		select {
		case <-held:
			t.Fatal("two hold the lock")
		case <-time.After(50 * time.Millisecond): // the others have had their chance
		}
		unlock()
	}
	_, err := os.Stat(folders.Lock())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStateFolderMustBeVisibleInNodes(t *testing.T) {
	for folder, want := range map[string]string{"/run/lab": "not visible", "/var/lib/lab": "not visible", "/tmp/" + string(make([]byte, 60)): "too long"} {
		t.Setenv("WEFT_LAB_DIR", string(bytes.ReplaceAll([]byte(folder), []byte{0}, []byte("x"))))
		_, err := At(&bytes.Buffer{})
		require.ErrorContains(t, err, want)
	}
}

func TestExitCodeIsTheShells(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -TERM $$": 143} {
		exit := new(exec.ExitError)
		require.ErrorAs(t, exec.Command("sh", "-c", script).Run(), &exit)
		require.Equal(t, want, ExitCode(exit))
	}
}
