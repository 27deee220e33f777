package services

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weft-fabric/weft/controlplane/channel"
)

// book is what this cluster exports, as the exporter has found it and the
// importer needs it.
type book struct {
	mu sync.Mutex
	// known once every ServiceExport has been looked at.
	known    bool
	exported map[types.NamespacedName]Exported
}

// set notes an export and reports whether what it is by its own addresses changed.
func (b *book) set(name types.NamespacedName, e Exported) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := !reflect.DeepEqual(b.exported[name].Own, e.Own)
	if e.Own == nil {
		delete(b.exported, name)
	} else {
		b.exported[name] = e
	}
	return changed
}

// replace notes all that there are and returns the names under which something
// changed.
func (b *book) replace(all map[types.NamespacedName]Exported) []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	var changed []types.NamespacedName
	for name := range b.exported {
		if all[name].Own == nil {
			changed = append(changed, name)
		}
	}
	for name, e := range all {
		if !reflect.DeepEqual(b.exported[name].Own, e.Own) {
			changed = append(changed, name)
		}
	}
	b.exported, b.known = all, true
	return changed
}

func (b *book) isKnown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

func (b *book) own(name types.NamespacedName) *channel.Service {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exported[name].Own
}

func (b *book) names() []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.exported))
}
