package apply

import (
	"github.com/cilium/ebpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Counters returns the cells that are not zero, of the links in use and of
// link 0, which counts what belongs to none.
func (e *Executor) Counters() ([]Counter, error) {
	var cells []Counter
	for link := range uint16(bpfgen.MaxLinks) {
		some, err := e.linkCounters(link)
		if err != nil {
			return nil, err
		}
		cells = append(cells, some...)
	}
	return cells, nil
}

// linkCounters reads the cells of one link. The maps are held no longer than
// that, because a path that has to flip waits for them.
func (e *Executor) linkCounters(id uint16) ([]Counter, error) {
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil || set == nil {
		return nil, err
	}
	links, counters := set.byName[bpfgen.BorderMapWeftLinks], set.byName[bpfgen.BorderMapWeftCounters]
	var link bpfgen.BorderWeftLink
	if err := links.Lookup(uint32(id), &link); err != nil {
		return nil, wrapMap(links, "read", err)
	}
	if id != 0 && link.Flags&bpfgen.LinkValid == 0 {
		return nil, nil
	}
	var cells []Counter
	var perCPU []bpfgen.BorderWeftCounter
	for cell := range bpfgen.Directions * bpfgen.MaxReasons {
		counter := Counter{Link: id, Direction: uint8(cell / bpfgen.MaxReasons), Reason: uint8(cell % bpfgen.MaxReasons)}
		index := bpfgen.CounterIndex(counter.Link, uint32(counter.Direction), bpfgen.Reason(counter.Reason))
		if err := counters.Lookup(index, &perCPU); err != nil {
			return nil, wrapMap(counters, "read", err)
		}
		for _, value := range perCPU {
			counter.Packets += value.Packets
			counter.Bytes += value.Bytes
		}
		if counter.Packets > 0 {
			cells = append(cells, counter)
		}
	}
	return cells, nil
}

// Maps says how full the hash maps are.
func (e *Executor) Maps() ([]MapFill, error) {
	var fills []MapFill
	for _, hash := range []struct {
		name  string
		count func(*ebpf.Map) (int, error)
	}{
		{bpfgen.BorderMapWeftView4Long, countHash[bpfgen.BorderWeftPrefix4, bpfgen.BorderWeftNet]},
		{bpfgen.BorderMapWeftWire4Long, countHash[bpfgen.BorderWeftPrefix4, bpfgen.BorderWeftWire]},
		{bpfgen.BorderMapWeftTheirs4, countHash[bpfgen.BorderWeftTheirsKey, bpfgen.BorderWeftNet]},
		{bpfgen.BorderMapWeftRows4, countHash[bpfgen.BorderWeftRowKey, bpfgen.BorderWeftRow4]},
		{bpfgen.BorderMapWeftAccept, countHash[bpfgen.BorderWeftAcceptKey, uint32]},
		{bpfgen.BorderMapWeftPlaces4, countHash[bpfgen.BorderWeftPrefix4, bpfgen.BorderWeftPlace4]},
		{bpfgen.BorderMapWeftNodes4, countHash[uint32, uint32]},
	} {
		fill, ok, err := e.mapFill(hash.name, hash.count)
		if err != nil {
			return nil, err
		}
		if ok {
			fills = append(fills, fill)
		}
	}
	return fills, nil
}

// mapFill holds the maps for one count only, as linkCounters does. ok is false
// while there are none.
func (e *Executor) mapFill(name string, count func(*ebpf.Map) (int, error)) (fill MapFill, ok bool, err error) {
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil || set == nil {
		return fill, false, err
	}
	m := set.byName[name]
	entries, err := count(m)
	return MapFill{Map: name, Entries: entries, MaxEntries: int(m.MaxEntries())}, err == nil, err
}

func countHash[K, V comparable](m *ebpf.Map) (int, error) {
	entries, err := readHash[K, V](m)
	return len(entries), err
}
