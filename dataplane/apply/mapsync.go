package apply

import (
	"fmt"
	"maps"
	"time"

	"github.com/cilium/ebpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// syncMaps makes the entries that the plan names. The tables that others point
// into come first: rows and places before the networks that name them, then what
// a link may bring in and what may be forwarded, and an entry that opens the way
// last. r.breakMaps undoes in the reverse order.
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
