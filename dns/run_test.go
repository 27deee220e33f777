package dns

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/weft-fabric/weft/dns/resolver"
)

const wait = 20 * time.Second

const imports = `{"kind":"ServiceImportList","apiVersion":"multicluster.x-k8s.io/v1beta1","metadata":{"resourceVersion":"1"},"items":[
{"metadata":{"namespace":"shop","name":"web","resourceVersion":"1"},"spec":{"type":"ClusterSetIP","ips":["10.96.7.7"],"ports":[{"port":80}]}}]}`

// process is weft-dns with an API server that the test lets answer.
type process struct {
	options  Options
	answers  atomic.Bool
	stop     context.CancelFunc
	ended    chan error
	upstream *httptest.Server
}

func start(t *testing.T, lameDuck time.Duration) *process {
	t.Helper()
	p := &process{ended: make(chan error, 1)}
	p.upstream = httptest.NewServer(http.HandlerFunc(p.apiServer))
	p.options = Options{
		Bind: free(t), MetricsBind: free(t), HealthBind: free(t), LameDuck: lameDuck,
		ResolvConf: filepath.Join(t.TempDir(), "resolv.conf"), Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.ended <- run(ctx, &rest.Config{Host: p.upstream.URL}, p.options) }()
	t.Cleanup(func() { cancel(); p.upstream.CloseClientConnections(); p.upstream.Close() })
	return p
}

func (p *process) apiServer(w http.ResponseWriter, request *http.Request) {
	switch {
	case !p.answers.Load() || request.URL.Query().Get("sendInitialEvents") != "":
		http.Error(w, "not now", http.StatusInternalServerError)
	case request.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-request.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, imports)
	}
}

// free returns an address that nobody uses.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// get returns the status and body of a page of the process; 0 if it gives none.
func get(address, path string) (int, string) {
	response, err := http.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func (p *process) awaitReady(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool { status, _ := get(p.options.HealthBind, "/readyz"); return status == want }, wait, 5*time.Millisecond)
}

func (p *process) ask(t *testing.T) int {
	t.Helper()
	reply, err := dns.Exchange(new(dns.Msg).SetQuestion("web.shop.svc.clusterset.local.", dns.TypeA), p.options.Bind)
	require.NoError(t, err)
	return reply.Rcode
}

// Alive from the start, ready once the zone is known; when it is to stop, not
// ready but answering, until the lame duck's time is over.
func TestLife(t *testing.T) {
	p := start(t, 2*time.Second)
	p.awaitReady(t, http.StatusServiceUnavailable)
	status, _ := get(p.options.HealthBind, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, dns.RcodeServerFailure, p.ask(t))

	p.answers.Store(true)
	p.awaitReady(t, http.StatusOK)
	require.Equal(t, dns.RcodeSuccess, p.ask(t))
	_, metrics := get(p.options.MetricsBind, "/metrics")
	require.Contains(t, metrics, "weft_dns_services 1")
	require.Contains(t, metrics, `weft_dns_answers_total{rcode="NOERROR",transport="udp"} 1`)

	p.stop()
	p.awaitReady(t, http.StatusServiceUnavailable)
	require.Equal(t, dns.RcodeSuccess, p.ask(t))
	require.NoError(t, <-p.ended)
}

// An API server that goes for good changes neither readiness nor answers.
func TestLifeWithoutAPIServer(t *testing.T) {
	p := start(t, 0)
	p.answers.Store(true)
	p.awaitReady(t, http.StatusOK)
	p.upstream.CloseClientConnections()
	p.upstream.Close()
	require.Never(t, func() bool { status, _ := get(p.options.HealthBind, "/readyz"); return status != http.StatusOK }, 200*time.Millisecond, 10*time.Millisecond)
	require.Equal(t, dns.RcodeSuccess, p.ask(t))
	p.stop()
	require.NoError(t, <-p.ended)
}

// What weftctl reads: the report on the servers of resolv.conf. Here that is
// nobody.
func TestClusterDNS(t *testing.T) {
	p := start(t, 0)
	p.awaitReady(t, http.StatusServiceUnavailable)
	status, text := get(p.options.HealthBind, resolver.Path)
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, text, "resolv.conf")

	require.NoError(t, os.WriteFile(p.options.ResolvConf, []byte("nameserver 127.0.0.199\n"), 0o600))
	status, text = get(p.options.HealthBind, resolver.Path)
	require.Equal(t, http.StatusOK, status)
	var report resolver.Report
	require.NoError(t, json.Unmarshal([]byte(text), &report))
	require.Equal(t, []string{"127.0.0.199:53"}, report.Servers)
	require.False(t, report.OK())
	require.NotEmpty(t, report.Problem)
}

// An address that is taken ends the process with a word on which.
func TestAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	options := Options{Bind: free(t), MetricsBind: taken.Addr().String(), HealthBind: "0", Log: slog.New(slog.DiscardHandler)}
	err = run(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}, options)
	require.ErrorContains(t, err, fmt.Sprint("listen for metrics: listen tcp ", taken.Addr()))
}
