package apply

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// batchSize bounds the memory of one batch operation, in entries.
const batchSize = 4096

func readArray[V any](m *ebpf.Map) ([]V, error) {
	all := make([]V, 0, m.MaxEntries())
	var cursor ebpf.MapBatchCursor
	keys, values := make([]uint32, batchSize), make([]V, batchSize)
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		all = append(all, values[:n]...)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return all, nil
		}
		if errors.Is(err, ebpf.ErrNotSupported) {
			return readArrayOneByOne[V](m)
		}
		if err != nil {
			return nil, wrapMap(m, "read", err)
		}
	}
}

// readArrayOneByOne serves kernels without batch operations on arrays.
func readArrayOneByOne[V any](m *ebpf.Map) ([]V, error) {
	all := make([]V, m.MaxEntries())
	for index := range all {
		if err := m.Lookup(uint32(index), &all[index]); err != nil {
			return nil, wrapMap(m, "read", err)
		}
	}
	return all, nil
}

func readHash[K, V comparable](m *ebpf.Map) (map[K]V, error) {
	all := map[K]V{}
	var cursor ebpf.MapBatchCursor
	keys, values := make([]K, batchSize), make([]V, batchSize)
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			all[keys[i]] = values[i]
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return all, nil
		}
		if errors.Is(err, ebpf.ErrNotSupported) {
			return readHashOneByOne[K, V](m)
		}
		if err != nil {
			return nil, wrapMap(m, "read", err)
		}
	}
}

func readHashOneByOne[K, V comparable](m *ebpf.Map) (map[K]V, error) {
	all := map[K]V{}
	var key K
	var value V
	entries := m.Iterate()
	for entries.Next(&key, &value) {
		all[key] = value
	}
	return all, wrapMap(m, "read", entries.Err())
}

// writeEntries puts all entries, in batches where there are many; it says
// whether all went well.
func writeEntries[K comparable, V any](r *run, m *ebpf.Map, action string, entries map[K]V) bool {
	if len(entries) == 0 {
		return true
	}
	keys, values := make([]K, 0, len(entries)), make([]V, 0, len(entries))
	for key, value := range entries {
		keys, values = append(keys, key), append(values, value)
	}
	if !r.fail(putAll(m, keys, values)) {
		return false
	}
	r.did(action, "map entries", fmt.Sprintf("%d of %s", len(keys), mapName(m)))
	return true
}

func putAll[K, V any](m *ebpf.Map, keys []K, values []V) error {
	for start := 0; start < len(keys); start += batchSize {
		end := min(start+batchSize, len(keys))
		_, err := m.BatchUpdate(keys[start:end], values[start:end], nil)
		if errors.Is(err, ebpf.ErrNotSupported) {
			err = putOneByOne(m, keys[start:end], values[start:end])
		}
		if errors.Is(err, unix.E2BIG) {
			return fullMap(m, len(keys))
		}
		if err != nil {
			return wrapMap(m, "write", err)
		}
	}
	return nil
}

func putOneByOne[K, V any](m *ebpf.Map, keys []K, values []V) error {
	for i := range keys {
		if err := m.Put(&keys[i], &values[i]); err != nil {
			return err
		}
	}
	return nil
}

func deleteEntries[K any](r *run, m *ebpf.Map, keys []K) bool {
	if len(keys) == 0 {
		return true
	}
	for i := range keys {
		if err := m.Delete(&keys[i]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return r.fail(wrapMap(m, "delete from", err))
		}
	}
	r.did("remove", "map entries", fmt.Sprintf("%d of %s", len(keys), mapName(m)))
	return true
}

// mapName is the name under which the map is pinned. All are short enough for
// the kernel to keep them whole.
func mapName(m *ebpf.Map) string {
	if info, err := m.Info(); err == nil {
		return info.Name
	}
	return m.String()
}

func wrapMap(m *ebpf.Map, verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s map %s: %w", verb, mapName(m), err)
}

func fullMap(m *ebpf.Map, entries int) error {
	return fmt.Errorf("map %s is full: it holds at most %d entries and the plan adds up to %d; remove networks, neighbors or pods, or run a Weft built with larger maps", mapName(m), m.MaxEntries(), entries)
}
