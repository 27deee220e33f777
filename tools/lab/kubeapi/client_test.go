package kubeapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestApplyAddressesEachObject(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type"))
		if string(body) == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	c := &Client{base: server.URL, http: server.Client()}
	require.NoError(t, c.Apply(t.Context(), []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
---
`)))
	require.Equal(t, []string{
		"PATCH /api/v1/namespaces/kube-system/configmaps/c?fieldManager=lab&force=true application/apply-patch+yaml",
		"PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/r?fieldManager=lab&force=true application/apply-patch+yaml",
	}, got)
}

func TestErrorsCarryTheServersReason(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message":"not yet"}`, http.StatusServiceUnavailable)
	}))
	defer server.Close()
	c := &Client{base: server.URL, http: server.Client()}
	require.ErrorContains(t, c.Ready(t.Context()), "not yet")
}

func TestNodeWithoutReportIsNotReady(t *testing.T) {
	require.Equal(t, "Unknown", Node{}.Ready().Status)
}
