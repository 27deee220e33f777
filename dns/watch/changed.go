package watch

import (
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/weft-fabric/weft/dns/zone"
)

// changed collects the services that changed, each once, until they are taken.
type changed struct {
	// some has a value while there are any.
	some chan struct{}

	mu   sync.Mutex
	keys map[zone.Key]struct{}
}

func newChanged() *changed {
	return &changed{some: make(chan struct{}, 1), keys: map[zone.Key]struct{}{}}
}

func (c *changed) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    c.add,
		UpdateFunc: func(_, object any) { c.add(object) },
		DeleteFunc: c.add,
	}
}

func (c *changed) add(object any) {
	// It fails only for objects without metadata, which no API server sends.
	text, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(text)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.keys[zone.Key{Namespace: namespace, Name: name}] = struct{}{}
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default:
	}
}

func (c *changed) take() []zone.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]zone.Key, 0, len(c.keys))
	for key := range c.keys {
		keys = append(keys, key)
	}
	clear(c.keys)
	return slices.Clip(keys)
}
