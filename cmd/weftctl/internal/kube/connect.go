// Package kube connects weftctl to API servers and turns their errors into
// sentences with a remedy.
package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// FieldManager owns the fields that weftctl applies.
const FieldManager = "weftctl"

// requestTimeout bounds each request, so that a dead API server is noticed.
const requestTimeout = 10 * time.Second

// Access says which cluster to talk to, as kubectl's flags do. Empty fields
// mean what they mean to kubectl: $KUBECONFIG or ~/.kube/config, and its
// current context.
type Access struct {
	Kubeconfig string
	Context    string
	// FlagPrefix of the flags that say so ("peer-" for the other cluster), for
	// messages.
	FlagPrefix string
}

func (a Access) kubeconfigFlag() string { return "--" + a.FlagPrefix + "kubeconfig" }
func (a Access) contextFlag() string    { return "--" + a.FlagPrefix + "context" }

// Cluster is a connection to the API server of one cluster.
type Cluster struct {
	client.Client
	// Config of the connection, for other clients.
	Config *rest.Config
	// Host is the API server's URL, for messages.
	Host string
	// Version of Kubernetes, such as v1.37.2.
	Version string
}

// Scheme returns the types that weftctl reads and writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, mcsv1beta1.Install, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	return scheme, nil
}

// Connect opens a connection and asks the API server for its version, so that
// a wrong kubeconfig is reported before anything else happens.
func Connect(ctx context.Context, access Access) (*Cluster, error) {
	config, err := restConfig(access)
	if err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	versions, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	info, err := versions.ServerVersion()
	if apierrors.IsUnauthorized(err) {
		return nil, fmt.Errorf("the API server at %s does not know the user of the kubeconfig (%w): log in again, or give another %s or %s", config.Host, err, access.kubeconfigFlag(), access.contextFlag())
	}
	if err != nil {
		return nil, fmt.Errorf("the API server at %s does not answer (%w): check %s and %s, and that the server runs", config.Host, err, access.kubeconfigFlag(), access.contextFlag())
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server at %s: %w", config.Host, err)
	}
	return &Cluster{Client: c, Config: config, Host: config.Host, Version: info.GitVersion}, ctx.Err()
}

func restConfig(access Access) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = access.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: access.Context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no usable kubeconfig (%w): give %s FILE and, if it has several, %s NAME", err, access.kubeconfigFlag(), access.contextFlag())
	}
	config.Timeout = requestTimeout
	config.QPS = -1 // the API server's own priority and fairness suffices
	config.UserAgent = FieldManager
	return config, nil
}
