package apply

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// SetWords writes the map words that differ from w, each with one aligned
// store: paths before the reach that invites others to send over them. Words that
// w does not name become zero.
func (e *Executor) SetWords(w plan.Words) error {
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil {
		return err
	}
	if set == nil {
		return errors.New("set path words: there are no maps yet, apply a plan first")
	}
	return errors.Join(
		setWords(set.byName[bpfgen.BorderMapWeftPaths], w.Paths),
		setReach(set.byName[bpfgen.BorderMapWeftReach], w.Reach),
		setWords(set.byName[bpfgen.BorderMapWeftChoices], w.Choices),
	)
}

func setWords[V uint32 | uint64](m *ebpf.Map, want map[uint32]V) error {
	have, err := readArray[V](m)
	if err != nil {
		return err
	}
	for index := range want {
		if int(index) >= len(have) {
			return fmt.Errorf("map %s has %d elements, cluster index %d is beyond them", mapName(m), len(have), index)
		}
	}
	var failures []error
	for index, value := range have {
		if want[uint32(index)] != value {
			failures = append(failures, wrapMap(m, "write", m.Put(uint32(index), want[uint32(index)])))
		}
	}
	return errors.Join(failures...)
}

func setReach(m *ebpf.Map, want bpfgen.BorderWeftReach) error {
	var have bpfgen.BorderWeftReach
	if err := m.Lookup(uint32(0), &have); err != nil {
		return wrapMap(m, "read", err)
	}
	if have == want {
		return nil
	}
	return wrapMap(m, "write", m.Put(uint32(0), &want))
}

// Words reads the words in force back from the maps; empty before the first
// Apply on this node.
func (e *Executor) Words() (plan.Words, error) {
	words := plan.Words{Paths: map[uint32]uint32{}, Choices: map[uint32]uint64{}}
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil || set == nil {
		return words, err
	}
	paths, err := readArray[uint32](set.byName[bpfgen.BorderMapWeftPaths])
	if err != nil {
		return words, err
	}
	choices, err := readArray[uint64](set.byName[bpfgen.BorderMapWeftChoices])
	if err != nil {
		return words, err
	}
	for index, value := range paths {
		if value != 0 {
			words.Paths[uint32(index)] = value
		}
	}
	for index, value := range choices {
		if value != 0 {
			words.Choices[uint32(index)] = value
		}
	}
	reach := set.byName[bpfgen.BorderMapWeftReach]
	return words, wrapMap(reach, "read", reach.Lookup(uint32(0), &words.Reach))
}

// LinkIDs of the links that the maps hold, also those of an earlier agent.
func (e *Executor) LinkIDs() map[plan.LinkKey]uint16 {
	ids := map[plan.LinkKey]uint16{}
	e.mapsMu.Lock()
	defer e.mapsMu.Unlock()
	set, err := e.openedMaps()
	if err != nil || set == nil {
		return ids
	}
	links, err := readArray[bpfgen.BorderWeftLink](set.byName[bpfgen.BorderMapWeftLinks])
	if err != nil {
		e.log.Warn("cannot read the links in use, they may get new numbers", "error", err)
		return ids
	}
	for id, link := range links {
		if link.Flags&bpfgen.LinkValid != 0 {
			ids[plan.LinkKey{Cluster: link.Cluster, RemoteGateway: link.RemoteGateway}] = uint16(id)
		}
	}
	return ids
}
