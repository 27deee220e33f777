package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/dns/zone"
)

const wait = 20 * time.Second

// apiServer lists ServiceImports and streams changes, as far as an informer asks
// for it. It can go away and come back on its port.
type apiServer struct {
	address string
	server  *http.Server

	mu      sync.Mutex
	version int
	imports map[string]mcs.ServiceImport
	streams map[chan metav1.WatchEvent]struct{}
	// broken lists fail.
	broken bool
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{address: "127.0.0.1:0", version: 1, imports: map[string]mcs.ServiceImport{}, streams: map[chan metav1.WatchEvent]struct{}{}}
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func (s *apiServer) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", s.address)
	require.NoError(t, err)
	s.address = listener.Addr().String()
	s.server = &http.Server{Handler: s}
	go s.server.Serve(listener)
}

func (s *apiServer) stop() { s.server.Close() }

func (s *apiServer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path != "/apis/multicluster.x-k8s.io/v1beta1/serviceimports" {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	query := request.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "": // an API server without streaming lists
		w.WriteHeader(http.StatusUnprocessableEntity)
		json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
	case query.Get("watch") != "":
		s.stream(w, request)
	default:
		s.list(w)
	}
}

func (s *apiServer) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		http.Error(w, "etcd is away", http.StatusInternalServerError)
		return
	}
	list := mcs.ServiceImportList{TypeMeta: metav1.TypeMeta{Kind: "ServiceImportList", APIVersion: "multicluster.x-k8s.io/v1beta1"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	for _, imported := range s.imports {
		list.Items = append(list.Items, imported)
	}
	json.NewEncoder(w).Encode(list)
}

func (s *apiServer) stream(w http.ResponseWriter, request *http.Request) {
	events := make(chan metav1.WatchEvent, 100)
	s.mu.Lock()
	// As if compacted: whoever missed a change has to list again.
	expired := request.URL.Query().Get("resourceVersion") != strconv.Itoa(s.version)
	s.streams[events] = struct{}{}
	s.mu.Unlock()
	defer func() { s.mu.Lock(); delete(s.streams, events); s.mu.Unlock() }()
	if expired {
		w.WriteHeader(http.StatusGone)
		json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonExpired, Code: 410})
		return
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-request.Context().Done():
			return
		case event := <-events:
			json.NewEncoder(w).Encode(event)
			w.(http.Flusher).Flush()
		}
	}
}

// set and remove change what there is, and tell who watches.
func (s *apiServer) set(imported mcs.ServiceImport) {
	s.change("MODIFIED", imported, func(key string, o mcs.ServiceImport) { s.imports[key] = o })
}

func (s *apiServer) remove(imported mcs.ServiceImport) {
	s.change("DELETED", imported, func(key string, _ mcs.ServiceImport) { delete(s.imports, key) })
}

func (s *apiServer) change(kind string, imported mcs.ServiceImport, store func(string, mcs.ServiceImport)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	imported.ResourceVersion = strconv.Itoa(s.version)
	key := imported.Namespace + "/" + imported.Name
	if _, exists := s.imports[key]; !exists {
		kind = "ADDED"
	}
	store(key, imported)
	data, _ := json.Marshal(imported)
	event := metav1.WatchEvent{Type: kind}
	event.Object.Raw = data
	for events := range s.streams {
		events <- event
	}
}

func service(name, address string) mcs.ServiceImport {
	return mcs.ServiceImport{
		TypeMeta:   metav1.TypeMeta{Kind: "ServiceImport", APIVersion: "multicluster.x-k8s.io/v1beta1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       mcs.ServiceImportSpec{Type: mcs.ClusterSetIP, IPs: []string{address}, Ports: []mcs.ServicePort{{Name: "http", Port: 80}}},
	}
}

func start(t *testing.T, s *apiServer) *Watch {
	t.Helper()
	w, err := New(&rest.Config{Host: "http://" + s.address}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	return w
}

// shows says what the zone answers for the address of a service of namespace shop.
func (w *Watch) shows(name string) string {
	if w.Index() == nil {
		return "unknown"
	}
	got := zone.Answer(w.Index(), dns.Question{Name: name + ".shop.svc.clusterset.local.", Qtype: dns.TypeA, Qclass: dns.ClassINET})
	if len(got.Answer) == 1 {
		return got.Answer[0].(*dns.A).A.String()
	}
	return dns.RcodeToString[got.Rcode]
}

func (w *Watch) await(t *testing.T, name, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return w.shows(name) == want }, wait, 5*time.Millisecond, "%s should be %s", name, want)
}

// Imports appear, change and go in the zone as they do in the cluster.
func TestZoneFollowsImports(t *testing.T) {
	s := newAPIServer(t)
	s.set(service("web", "10.96.0.7"))
	w := start(t, s)
	w.await(t, "web", "10.96.0.7")
	s.set(service("new", "10.96.0.8"))
	w.await(t, "new", "10.96.0.8")
	s.set(service("web", "10.96.0.9"))
	w.await(t, "web", "10.96.0.9")
	pending := service("new", "")
	s.set(pending)
	w.await(t, "new", "NOERROR")
	s.remove(pending)
	w.await(t, "new", "NXDOMAIN")
	headless := service("web", "10.96.0.9")
	headless.Spec.Type = mcs.Headless
	s.set(headless)
	w.await(t, "web", "NXDOMAIN")
}

// The API server goes: the zone stays. It comes back: the zone has what changed
// in between, also what was deleted.
func TestOutageOfTheAPIServer(t *testing.T) {
	s := newAPIServer(t)
	s.set(service("web", "10.96.0.7"))
	s.set(service("old", "10.96.0.8"))
	w := start(t, s)
	w.await(t, "web", "10.96.0.7")
	s.stop()
	s.remove(service("old", ""))
	s.set(service("new", "10.96.0.9"))
	require.Never(t, func() bool { return w.shows("web") != "10.96.0.7" || w.shows("old") != "10.96.0.8" }, 300*time.Millisecond, 10*time.Millisecond)
	s.start(t)
	w.await(t, "new", "10.96.0.9")
	w.await(t, "old", "NXDOMAIN")
	require.Equal(t, "10.96.0.7", w.shows("web"))
}

// A list that fails is not an empty one: nothing is known until one succeeds.
func TestUnreadableIsNotEmpty(t *testing.T) {
	s := newAPIServer(t)
	s.broken = true
	w := start(t, s)
	require.Never(t, func() bool { return w.Index() != nil }, 300*time.Millisecond, 10*time.Millisecond)
	s.mu.Lock()
	s.broken = false
	s.mu.Unlock()
	require.Eventually(t, func() bool { return w.Index() != nil }, wait, 5*time.Millisecond)
	require.Equal(t, "NXDOMAIN", w.shows("web"))
}

// What the API allows is taken, with its defaults; what it does not is left out.
func TestServiceOf(t *testing.T) {
	imported := service("web", "10.96.0.7")
	imported.Spec.IPs = append(imported.Spec.IPs, "fd00::7", "junk")
	imported.Spec.Ports = append(imported.Spec.Ports, mcs.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, mcs.ServicePort{Name: "bad", Port: 70000})
	got := serviceOf(&imported)
	require.Equal(t, zone.Key{Namespace: "shop", Name: "web"}, got.Key)
	require.Equal(t, "[10.96.0.7 fd00::7]", fmt.Sprint(got.Addresses))
	require.Equal(t, []zone.Port{{Name: "http", Protocol: "TCP", Number: 80}, {Name: "dns", Protocol: "UDP", Number: 53}}, got.Ports)
}
