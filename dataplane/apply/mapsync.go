package apply

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// batchSize bounds the memory of one batch operation: 4096 entries.
const batchSize = 4096

// syncMaps makes the entries that the plan names. The tables that others point
// into come first: rows and places before the networks that name them, and an
// entry that opens the way last. r.breakMaps undoes in the reverse order.
func (r *run) syncMaps(set *mapSet) {
	wanted := &r.plan.Maps
	r.syncLengths(set.byName[bpfgen.BorderMapWeftLengths], wanted.Lengths)
	syncArray(r, set, bpfgen.BorderMapWeftClusters, wanted.Clusters)
	syncHash(r, set, bpfgen.BorderMapWeftNodes4, wanted.Nodes4)
	syncArray(r, set, bpfgen.BorderMapWeftGateways4, wanted.Gateways4)
	syncHash(r, set, bpfgen.BorderMapWeftPlaces4, wanted.Places4)
	r.syncRows(set)
	syncHash(r, set, bpfgen.BorderMapWeftTheirs4, wanted.Theirs4)
	r.syncLinks(set)
	syncArray(r, set, bpfgen.BorderMapWeftTransit, wanted.Transit)
	syncHash(r, set, bpfgen.BorderMapWeftAccept, wanted.Accept)
	syncHash(r, set, bpfgen.BorderMapWeftWire4Long, wanted.Wire4Long)
	syncArray(r, set, bpfgen.BorderMapWeftWire4, wanted.Wire4)
	syncHash(r, set, bpfgen.BorderMapWeftView4Long, wanted.View4Long)
	syncArray(r, set, bpfgen.BorderMapWeftView4, wanted.View4)
}

// pruneMapEntries undoes what syncMaps found to be too much, last table first.
func (r *run) pruneMapEntries() {
	if r.zero() {
		return // the maps themselves go
	}
	for i := len(r.breakMaps) - 1; i >= 0; i-- {
		r.breakMaps[i]()
	}
	r.breakMaps = nil
}

// syncLengths first lets the programs try both the old and the new prefix
// lengths, and only after the entries are gone the new ones alone.
func (r *run) syncLengths(m *ebpf.Map, want bpfgen.BorderWeftLengths) {
	var have bpfgen.BorderWeftLengths
	if !r.fail(wrapMap(m, "read", m.Lookup(uint32(0), &have))) {
		return
	}
	both := want
	both.View4 |= have.View4
	both.Wire4 |= have.Wire4
	both.Places4 |= have.Places4
	put := func(value bpfgen.BorderWeftLengths) {
		if r.fail(wrapMap(m, "write", m.Put(uint32(0), &value))) {
			r.did("change", "map", mapName(m))
		}
	}
	if both != have {
		put(both)
	}
	if both != want {
		r.breakMaps = append(r.breakMaps, func() { put(want) })
	}
}

// syncRows holds back a row whose key now stands for another network, as after a
// neighbor has gone and another has got its index: as long as the former's
// prefixes are in the other tables, they would lead into the new one's network,
// and its packets would count as the new one's. Until those are gone, the row is
// missing, which is a drop with a reason.
func (r *run) syncRows(set *mapSet) {
	name := bpfgen.BorderMapWeftRows4
	have, err := known(set, name, readHash[bpfgen.BorderWeftRowKey, bpfgen.BorderWeftRow4])
	if !r.fail(err) {
		return
	}
	now, later := maps.Clone(r.plan.Maps.Rows4), map[bpfgen.BorderWeftRowKey]bpfgen.BorderWeftRow4{}
	var former []bpfgen.BorderWeftRowKey
	for key, row := range now {
		if before, exists := have[key]; exists && (before.Local != row.Local || before.Mask != row.Mask) {
			delete(now, key)
			later[key], former = row, append(former, key)
		}
	}
	if len(later) > 0 {
		// The first to be undone is the last to be done.
		r.breakMaps = append(r.breakMaps, func() { r.putRows(set, later) })
	}
	if !deleteEntries(r, set.byName[name], former) {
		delete(set.known, name)
		return
	}
	for _, key := range former {
		delete(have, key)
	}
	syncHash(r, set, name, now)
}

func (r *run) putRows(set *mapSet, rows map[bpfgen.BorderWeftRowKey]bpfgen.BorderWeftRow4) {
	delete(set.known, bpfgen.BorderMapWeftRows4)
	writeEntries(r, set.byName[bpfgen.BorderMapWeftRows4], "change", rows)
}

// syncLinks fills in the lanes' interface indexes and keeps the counts.
func (r *run) syncLinks(set *mapSet) {
	m := set.byName[bpfgen.BorderMapWeftLinks]
	have, err := readArray[bpfgen.BorderWeftLink](m)
	if !r.fail(err) {
		return
	}
	wanted := map[uint32]bpfgen.BorderWeftLink{}
	for id, link := range r.plan.Maps.Links {
		value := link.Value
		device, err := findDevice(link.Lane)
		if !r.fail(err) {
			return
		}
		if device != nil { // without it, index 0: no packet can take the link
			value.LaneIfindex = uint32(device.Attrs().Index)
		}
		if int(id) < len(have) && have[id].Cluster == value.Cluster && have[id].RemoteGateway == value.RemoteGateway {
			value.OuterFragments = have[id].OuterFragments
		}
		wanted[id] = value
	}
	syncArray(r, set, bpfgen.BorderMapWeftLinks, wanted)
}

// syncArray writes the elements that differ; those to become zero wait.
func syncArray[V comparable](r *run, set *mapSet, name string, want map[uint32]V) {
	m := set.byName[name]
	have, err := known(set, name, readArray[V])
	if !r.fail(err) {
		return
	}
	var zero V
	fill, empty := map[uint32]V{}, map[uint32]V{}
	for index, value := range want {
		if int(index) >= len(have) {
			r.fail(fmt.Errorf("map %s has %d elements, index %d is beyond them", name, len(have), index))
			return
		}
		if value != have[index] && value != zero {
			fill[index] = value
		}
	}
	for index, value := range have {
		if value != zero && want[uint32(index)] == zero {
			empty[uint32(index)] = zero
		}
	}
	write := func(action string, elements map[uint32]V) {
		if !writeEntries(r, m, action, elements) {
			delete(set.known, name)
			return
		}
		for index, value := range elements {
			have[index] = value
		}
	}
	write("change", fill)
	if len(empty) > 0 {
		r.breakMaps = append(r.breakMaps, func() { write("remove", empty) })
	}
}

// syncHash puts the entries that are missing or differ; those to go wait.
func syncHash[K, V comparable](r *run, set *mapSet, name string, want map[K]V) {
	m := set.byName[name]
	if len(want) > int(m.MaxEntries()) {
		r.fail(fullMap(m, len(want)))
		return
	}
	have, err := known(set, name, readHash[K, V])
	if !r.fail(err) {
		return
	}
	put := map[K]V{}
	for key, value := range want {
		if current, exists := have[key]; !exists || current != value {
			put[key] = value
		}
	}
	var surplus []K
	for key := range have {
		if _, wanted := want[key]; !wanted {
			surplus = append(surplus, key)
		}
	}
	remove := func() {
		if !deleteEntries(r, m, surplus) {
			delete(set.known, name)
			return
		}
		for _, key := range surplus {
			delete(have, key)
		}
	}
	if len(have)+len(put) <= int(m.MaxEntries()) {
		r.breakMaps = append(r.breakMaps, remove)
	} else {
		remove() // old and new do not fit together
	}
	if !writeEntries(r, m, "change", put) {
		delete(set.known, name)
		return
	}
	for key, value := range put {
		have[key] = value
	}
}

// known returns a large map's content, read anew only if there is no recent
// copy. The caller keeps the copy true. Small maps are always read.
func known[C any](set *mapSet, name string, read func(*ebpf.Map) (C, error)) (C, error) {
	m := set.byName[name]
	if copy, ok := set.known[name]; ok {
		if content, ok := copy.content.(C); ok {
			return content, nil
		}
	}
	content, err := read(m)
	if err == nil && m.MaxEntries() > batchSize {
		set.known[name] = knownContent{id: mapID(m), content: content, read: time.Now()}
	}
	return content, err
}

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
