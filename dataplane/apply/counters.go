package apply

import (
	"github.com/cilium/ebpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Counters returns the cells that are not zero, of the links in use and of
// link 0, which counts what belongs to none.
func (e *Executor) Counters() ([]Counter, error) {
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil || set == nil {
		return nil, err
	}
	links, err := readArray[bpfgen.BorderWeftLink](set.byName[bpfgen.BorderMapWeftLinks])
	if err != nil {
		return nil, err
	}
	counters := set.byName[bpfgen.BorderMapWeftCounters]
	var cells []Counter
	var perCPU []bpfgen.BorderWeftCounter
	for link := range links {
		if link != 0 && links[link].Flags&bpfgen.LinkValid == 0 {
			continue
		}
		for cell := range bpfgen.Directions * bpfgen.MaxReasons {
			counter := Counter{Link: uint16(link), Direction: uint8(cell / bpfgen.MaxReasons), Reason: uint8(cell % bpfgen.MaxReasons)}
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
	}
	return cells, nil
}

// Maps says how full the hash maps are.
func (e *Executor) Maps() ([]MapFill, error) {
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil || set == nil {
		return nil, err
	}
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
		m := set.byName[hash.name]
		entries, err := hash.count(m)
		if err != nil {
			return nil, err
		}
		fills = append(fills, MapFill{Map: hash.name, Entries: entries, MaxEntries: int(m.MaxEntries())})
	}
	return fills, nil
}

func countHash[K, V comparable](m *ebpf.Map) (int, error) {
	entries, err := readHash[K, V](m)
	return len(entries), err
}
