package source

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/apis/patient"
)

// API follows the API server.
type API struct {
	node      string
	cache     cache.Cache
	client    client.Client
	informers informers
	changed   chan struct{}
}

type informers struct {
	configs, nodes, neighbors, secrets, pods cache.Informer
}

var _ Source = (*API)(nil)

// NewAPI returns a source of the objects that the agent of a node needs. It
// works without the API server being there.
func NewAPI(config *rest.Config, node string) (*API, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	config = rest.CopyConfig(config)
	config.Wrap(patient.Wrap)
	mapper := staticMapper()
	objects, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper, ByObject: selectors(node)})
	if err != nil {
		return nil, fmt.Errorf("make cache: %w", err)
	}
	direct, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	a := &API{node: node, cache: objects, client: direct, changed: make(chan struct{}, 1)}
	if err := a.follow(); err != nil {
		return nil, err
	}
	return a, nil
}

// staticMapper knows the few kinds that an agent reads. Discovery would need
// the API server before anything could start.
func staticMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion, corev1.SchemeGroupVersion})
	for _, kind := range []string{"FabricConfig", "FabricNode", "Neighbor"} {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"Secret", "Pod"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return mapper
}

// selectors narrow what is read to what is needed and allowed: one Secret, and
// the pods of this node.
func selectors(node string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{v1alpha1.SystemNamespace: {}},
			Field:      fields.OneTermEqualSelector("metadata.name", v1alpha1.OverlaySecretName),
		},
		&corev1.Pod{}: {
			Field:     fields.OneTermEqualSelector("spec.nodeName", node),
			Transform: stripPod,
		},
	}
}

// follow asks for the kinds. Nothing is read before Run.
func (a *API) follow() error {
	for _, kind := range []struct {
		object   client.Object
		informer *cache.Informer
	}{
		{&v1alpha1.FabricConfig{}, &a.informers.configs},
		{&v1alpha1.FabricNode{}, &a.informers.nodes},
		{&v1alpha1.Neighbor{}, &a.informers.neighbors},
		{&corev1.Secret{}, &a.informers.secrets},
		{&corev1.Pod{}, &a.informers.pods},
	} {
		informer, err := a.cache.GetInformer(context.Background(), kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("follow %T: %w", kind.object, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify(a.changed) },
			UpdateFunc: func(any, any) { notify(a.changed) },
			DeleteFunc: func(any) { notify(a.changed) },
		}); err != nil {
			return fmt.Errorf("follow %T: %w", kind.object, err)
		}
		*kind.informer = informer
	}
	return nil
}

// Run follows the API server until the context ends.
func (a *API) Run(ctx context.Context) error {
	for _, informer := range []cache.Informer{a.informers.configs, a.informers.nodes, a.informers.neighbors, a.informers.secrets, a.informers.pods} {
		// A kind without objects syncs without an event.
		go func() {
			if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				notify(a.changed)
			}
		}()
	}
	if err := a.cache.Start(ctx); err != nil {
		return fmt.Errorf("follow API server: %w", err)
	}
	return nil
}

// Changed delivers after a change.
func (a *API) Changed() <-chan struct{} { return a.changed }

// Snapshot returns what the caches hold.
func (a *API) Snapshot() Snapshot {
	var s Snapshot
	var configs v1alpha1.FabricConfigList
	if s.ConfigSynced = a.list(a.informers.configs, &configs); s.ConfigSynced {
		for i := range configs.Items {
			if configs.Items[i].Name == v1alpha1.FabricConfigName {
				s.Config = &configs.Items[i]
			}
		}
	}
	var nodes v1alpha1.FabricNodeList
	s.NodesSynced = a.list(a.informers.nodes, &nodes)
	s.Nodes = nodes.Items
	var neighbors v1alpha1.NeighborList
	s.NeighborsSynced = a.list(a.informers.neighbors, &neighbors)
	s.Neighbors = neighbors.Items
	s.VNI, s.VNISynced = a.vni()
	var pods corev1.PodList
	s.PodsSynced = a.list(a.informers.pods, &pods)
	s.Pods = podAddresses(pods.Items, a.node)
	return s
}

// vni reads the Secret from its cache, if that has synced.
func (a *API) vni() (vni uint32, synced bool) {
	if !a.informers.secrets.HasSynced() {
		return 0, false
	}
	var secret corev1.Secret
	err := a.cache.Get(context.Background(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.OverlaySecretName}, &secret)
	if err != nil {
		return 0, apierrors.IsNotFound(err)
	}
	return vniOf(&secret), true
}

// list reads a kind from its cache, if that has synced.
func (a *API) list(informer cache.Informer, list client.ObjectList) bool {
	if !informer.HasSynced() {
		return false
	}
	return a.cache.List(context.Background(), list, client.UnsafeDisableDeepCopy) == nil
}

// WriteStatus replaces the status of the node's FabricNode, whatever it was:
// nobody else writes it.
func (a *API) WriteStatus(ctx context.Context, status v1alpha1.FabricNodeStatus) error {
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": status}})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	object := &v1alpha1.FabricNode{}
	object.Name = a.node
	if err := a.client.Status().Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("write status of FabricNode %s: %w", a.node, err)
	}
	return nil
}

func notify(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
