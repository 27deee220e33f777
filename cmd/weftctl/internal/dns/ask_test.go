package dns

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/weft-fabric/weft/dns/resolver"
)

// The API server's proxy is asked for the health port of the pod, and its errors
// say which pod.
func TestThroughAPI(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/api/v1/namespaces/weft-system/pods/http:one:8081/proxy/cluster-dns" {
			http.Error(w, "error trying to reach service: no route to host", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"servers":["10.96.0.10:53"],"asked":8,"right":7,"problem":"10.96.0.10:53 answers SERVFAIL"}`))
	}))
	defer server.Close()
	ask, err := ThroughAPI(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	report, err := ask(t.Context(), "one")
	require.NoError(t, err)
	require.Equal(t, resolver.Report{Servers: []string{"10.96.0.10:53"}, Asked: 8, Right: 7, Problem: "10.96.0.10:53 answers SERVFAIL"}, report)
	_, err = ask(t.Context(), "two")
	require.ErrorContains(t, err, "ask through the API server pod two")
}
