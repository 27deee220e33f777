package source

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// fakeServer is as much of an API server as an agent needs: it lists what the
// test put there, keeps watches open, and takes patches. Everything that the
// agent's permissions would not allow is a failure.
type fakeServer struct {
	t  *testing.T
	mu sync.Mutex
	// items by path, as JSON; a path that is not there is refused, like a kind
	// whose CRD is missing.
	items   map[string]string
	patches []string
	closing chan struct{}
}

const (
	configsPath   = "/apis/net.weft.dev/v1alpha1/fabricconfigs"
	nodesPath     = "/apis/net.weft.dev/v1alpha1/fabricnodes"
	neighborsPath = "/apis/net.weft.dev/v1alpha1/neighbors"
	secretsPath   = "/api/v1/namespaces/weft-system/secrets"
	podsPath      = "/api/v1/pods"
)

var (
	kinds     = map[string]string{configsPath: "FabricConfig", nodesPath: "FabricNode", neighborsPath: "Neighbor", secretsPath: "Secret", podsPath: "Pod"}
	selectOne = map[string]string{secretsPath: "metadata.name=weft-overlay", podsPath: "spec.nodeName=a1"}
)

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	items, ok := f.items[r.URL.Path]
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch kind := kinds[r.URL.Path]; {
	case r.Method == http.MethodPatch && r.URL.Path == nodesPath+"/a1/status":
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.patches = append(f.patches, r.Header.Get("Content-Type")+" "+string(body))
		f.mu.Unlock()
		_, _ = io.WriteString(w, `{"apiVersion":"net.weft.dev/v1alpha1","kind":"FabricNode","metadata":{"name":"a1"}}`)
	case r.Method != http.MethodGet || kind == "" || query.Get("fieldSelector") != selectOne[r.URL.Path]:
		f.t.Errorf("the agent may not %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusForbidden)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case query.Get("watch") != "":
		f.watch(w, r, kind, items)
	default:
		group := "net.weft.dev/v1alpha1"
		if strings.HasPrefix(r.URL.Path, "/api/v1") {
			group = "v1"
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":"%sList","metadata":{"resourceVersion":"1"},"items":[%s]}`, group, kind, items)
	}
}

// watch streams the items first if it is asked to (KEP-3157), then nothing.
func (f *fakeServer) watch(w http.ResponseWriter, r *http.Request, kind, items string) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		var list []json.RawMessage
		if err := json.Unmarshal([]byte("["+items+"]"), &list); err != nil {
			f.t.Error(err)
		}
		for _, item := range list {
			_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", item)
		}
		group := "net.weft.dev/v1alpha1"
		if strings.HasPrefix(r.URL.Path, "/api/v1") {
			group = "v1"
		}
		_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", group, kind)
	}
	w.(http.Flusher).Flush()
	select {
	case <-r.Context().Done():
	case <-f.closing:
	}
}

func startAPI(t *testing.T, items map[string]string) (*API, *fakeServer) {
	t.Helper()
	f := &fakeServer{t: t, items: items, closing: make(chan struct{})}
	server := httptest.NewServer(f)
	a, err := NewAPI(&rest.Config{Host: server.URL}, "a1")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		close(f.closing)
		group.Wait()
		server.Close()
	})
	return a, f
}

func allKinds() map[string]string {
	return map[string]string{
		configsPath:   `{"apiVersion":"net.weft.dev/v1alpha1","kind":"FabricConfig","metadata":{"name":"default"},"spec":{"clusterID":"a"}}`,
		nodesPath:     `{"apiVersion":"net.weft.dev/v1alpha1","kind":"FabricNode","metadata":{"name":"a1"},"spec":{"gatewayID":1}}`,
		neighborsPath: ``,
		secretsPath:   `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"weft-overlay","namespace":"weft-system"},"data":{"vni":"MTIzNDU="}}`,
		podsPath: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"x"},"spec":{"nodeName":"a1"},"status":{"podIPs":[{"ip":"10.244.1.9"}]}},
			{"apiVersion":"v1","kind":"Pod","metadata":{"name":"h","namespace":"x"},"spec":{"nodeName":"a1","hostNetwork":true},"status":{"podIPs":[{"ip":"192.0.2.1"}]}}`,
	}
}

// The agent reads five kinds, the Secret and the pods by selector, and nothing
// else: the server refuses the rest.
func TestAPI(t *testing.T) {
	a, f := startAPI(t, allKinds())
	s := until(t, a, func(s Snapshot) bool { return s.Synced() && s.PodsSynced })
	require.Equal(t, v1alpha1.ClusterID("a"), s.Config.Spec.ClusterID)
	require.Len(t, s.Nodes, 1)
	require.Empty(t, s.Neighbors)
	require.Equal(t, uint32(12345), s.VNI)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.244.1.9")}, s.Pods)

	require.NoError(t, a.WriteStatus(context.Background(), v1alpha1.FabricNodeStatus{UnderlayMTU: 1400}))
	require.Equal(t, []string{`application/json-patch+json [{"op":"add","path":"/status","value":{"underlayMTU":1400}}]`}, f.patches)
}

// A cluster without the Secret is synced and has no VNI.
func TestNoSecret(t *testing.T) {
	items := allKinds()
	items[secretsPath] = ""
	a, _ := startAPI(t, items)
	require.Zero(t, until(t, a, func(s Snapshot) bool { return s.Synced() }).VNI)
}

// A kind that cannot be read is not synced, whatever the others are.
func TestKindsSyncAlone(t *testing.T) {
	items := allKinds()
	delete(items, neighborsPath)
	a, f := startAPI(t, items)
	s := until(t, a, func(s Snapshot) bool { return s.ConfigSynced && s.NodesSynced && s.VNISynced && s.PodsSynced })
	require.False(t, s.NeighborsSynced)
	require.False(t, s.Synced())
	f.mu.Lock()
	f.items[neighborsPath] = ""
	f.mu.Unlock()
	until(t, a, func(s Snapshot) bool { return s.Synced() })
}

// Without an API server the source starts all the same and knows nothing.
func TestNoServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	a, err := NewAPI(&rest.Config{Host: server.URL}, "a1")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	s := a.Snapshot()
	require.False(t, s.ConfigSynced || s.NodesSynced || s.NeighborsSynced || s.VNISynced || s.PodsSynced)
	cancel()
	require.NoError(t, <-done)
}
