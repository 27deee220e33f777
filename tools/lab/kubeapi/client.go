// Package kubeapi is the little that the lab needs of the Kubernetes API: apply
// a document, ask whether the server, nodes and a Deployment are ready.
package kubeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Client speaks to one API server as its administrator.
type Client struct {
	base string
	http *http.Client
}

// New returns a client; certificates are PEM.
func New(server string, ca, cert, key []byte) (*Client, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &Client{base: server, http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		}},
	}}, nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		var status struct{ Message string }
		if json.Unmarshal(data, &status) != nil || status.Message == "" {
			status.Message = strings.TrimSpace(string(data[:min(len(data), 300)]))
		}
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, status.Message)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// Ready returns nil when the API server says that it is ready.
func (c *Client) Ready(ctx context.Context) error { return c.do(ctx, "GET", "/readyz", nil, nil) }

// object is what every manifest has.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct{ Name, Namespace string }
}

// path is the object's address. Kinds of the lab's own manifests form their
// plural with an s.
func (o object) path() string {
	root := "/apis/" + o.APIVersion
	if !strings.Contains(o.APIVersion, "/") {
		root = "/api/" + o.APIVersion
	}
	if o.Metadata.Namespace != "" {
		root += "/namespaces/" + o.Metadata.Namespace
	}
	return root + "/" + strings.ToLower(o.Kind) + "s/" + o.Metadata.Name
}

// Apply server-side applies every document of the YAML text.
func (c *Client) Apply(ctx context.Context, manifests []byte) error {
	for _, document := range bytes.Split(manifests, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(document, &o); err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		if o.Kind == "" {
			continue
		}
		if err := c.do(ctx, "PATCH", o.path()+"?fieldManager=lab&force=true", document, nil); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.Kind, o.Metadata.Name, err)
		}
	}
	return nil
}

// Condition is a condition of any object.
type Condition struct{ Type, Status, Reason, Message string }

// Node is a Kubernetes node, as far as the lab asks.
type Node struct {
	Metadata struct{ Name string }
	Status   struct{ Conditions []Condition }
}

// Ready returns the Ready condition, which is empty before the kubelet's first report.
func (n Node) Ready() Condition {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c
		}
	}
	return Condition{Type: "Ready", Status: "Unknown", Message: "the kubelet has not reported yet"}
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var list struct{ Items []Node }
	err := c.do(ctx, "GET", "/api/v1/nodes", nil, &list)
	return list.Items, err
}

// DeploymentAvailable says whether the Deployment has an available replica.
func (c *Client) DeploymentAvailable(ctx context.Context, namespace, name string) (bool, error) {
	var deployment struct {
		Status struct{ AvailableReplicas int }
	}
	err := c.do(ctx, "GET", "/apis/apps/v1/namespaces/"+namespace+"/deployments/"+name, nil, &deployment)
	return deployment.Status.AvailableReplicas > 0, err
}
