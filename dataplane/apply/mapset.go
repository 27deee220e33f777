package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// Folders under the pin root. The maps' folder carries the version of the ABI,
// so that an incompatible change runs beside the old one.
const (
	mapsFolders    = "maps-v"
	linksFolder    = "links"
	programsFolder = "programs"
)

func mapsFolder() string { return mapsFolders + strconv.Itoa(bpfgen.ABI) }

// mapSet holds the pinned maps by name.
type mapSet struct {
	byName map[string]*ebpf.Map
	// known are copies of the large maps' content, see knownFor.
	known map[string]knownContent
}

// knownContent is the content of a map as last read and written. The agent is
// the only writer, and reading 65,536 elements takes the kernel some 20 ms, so a
// copy stands in for a while.
type knownContent struct {
	id      ebpf.MapID
	content any // []V or map[K]V
	read    time.Time
}

// knownFor bounds how long a change by somebody else stays unnoticed.
const knownFor = time.Minute

func newMapSet() *mapSet {
	return &mapSet{byName: map[string]*ebpf.Map{}, known: map[string]knownContent{}}
}

// inherit takes over what an earlier set knows of the same maps.
func (s *mapSet) inherit(old *mapSet) {
	if old == nil {
		return
	}
	for name, known := range old.known {
		if known.id == mapID(s.byName[name]) && time.Since(known.read) < knownFor {
			s.known[name] = known
		}
	}
}

func mapID(m *ebpf.Map) ebpf.MapID {
	info, err := m.Info()
	if err != nil {
		return 0
	}
	id, _ := info.ID()
	return id
}

func (s *mapSet) close() error {
	if s == nil {
		return nil
	}
	var failures []error
	for _, m := range s.byName {
		failures = append(failures, m.Close())
	}
	return errors.Join(failures...)
}

// openMaps opens the pinned maps and makes those that are missing. The names of
// the made ones are returned.
func openMaps(pinRoot string, specs map[string]*ebpf.MapSpec) (*mapSet, []string, error) {
	folder := filepath.Join(pinRoot, mapsFolder())
	if err := makePinFolder(folder); err != nil {
		return nil, nil, err
	}
	set := newMapSet()
	var made []string
	for name, spec := range specs {
		_, missing := os.Stat(filepath.Join(folder, name))
		m, err := ebpf.NewMapWithOptions(spec, ebpf.MapOptions{PinPath: folder})
		if errors.Is(err, ebpf.ErrMapIncompatible) {
			err = fmt.Errorf("the pinned map is of another Weft version with the same ABI number, run `weft-agent cleanup` on this node: %w", err)
		}
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("open map %s: %w", name, err), set.close())
		}
		set.byName[name] = m
		if missing != nil {
			made = append(made, name)
		}
	}
	return set, made, nil
}

// makePinFolder refuses a folder that would not keep pins.
func makePinFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make pin folder: %w", err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return fmt.Errorf("look at pin folder %s: %w", folder, err)
	}
	if stat.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("pin folder %s is not on a bpffs: mount one on the node (mount -t bpf bpf /sys/fs/bpf)", folder)
	}
	return nil
}

// ensureMaps opens the maps, puts in what the plan names and prepares the
// removal of the rest.
func (r *run) ensureMaps() {
	if r.zero() {
		return
	}
	set, made, err := openMaps(r.options.PinRoot, r.specs.pinned())
	if !r.fail(err) {
		return
	}
	for _, name := range made {
		r.did("add", "map", name)
	}
	r.mapsMu.Lock()
	old := r.maps
	set.inherit(old)
	r.maps = set
	r.mapsMu.Unlock()
	r.fail(old.close())
	r.syncMaps(set)
}

// openedMaps returns the maps, opened from the pins if need be, without making
// any; nil before the first Apply on this node. The caller holds mapsMu.
func (e *Executor) openedMaps() (*mapSet, error) {
	if e.maps != nil {
		return e.maps, nil
	}
	set := newMapSet()
	for name := range e.specs.pinned() {
		m, err := ebpf.LoadPinnedMap(filepath.Join(e.options.PinRoot, mapsFolder(), name), nil)
		if errors.Is(err, os.ErrNotExist) {
			return nil, set.close()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open map %s: %w", name, err), set.close())
		}
		set.byName[name] = m
	}
	e.maps = set
	return set, nil
}

// prunePins removes the maps when nothing needs them any more, and those of
// another ABI once all programs use the present ones.
func (r *run) prunePins() {
	folders, err := filepath.Glob(filepath.Join(r.options.PinRoot, mapsFolders+"*"))
	if !r.fail(err) {
		return
	}
	if r.zero() {
		r.mapsMu.Lock()
		defer r.mapsMu.Unlock()
		r.fail(r.maps.close())
		r.maps = nil
	} else if len(r.failures) > 0 {
		return
	}
	for _, folder := range folders {
		if r.zero() || filepath.Base(folder) != mapsFolder() {
			r.removePins(folder)
		}
	}
	if !r.zero() {
		return
	}
	for _, name := range []string{linksFolder, programsFolder, ""} {
		if err := os.Remove(filepath.Join(r.options.PinRoot, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.fail(fmt.Errorf("remove pin folder: %w", err))
		}
	}
}

// removePins removes a folder of pinned maps.
func (r *run) removePins(folder string) {
	pins, err := os.ReadDir(folder)
	if err != nil {
		r.fail(fmt.Errorf("list pinned maps: %w", err))
		return
	}
	for _, pin := range pins {
		if r.fail(os.Remove(filepath.Join(folder, pin.Name()))) {
			r.did("remove", "map", pin.Name())
		}
	}
	if err := os.Remove(folder); err != nil {
		r.fail(fmt.Errorf("remove pin folder: %w", err))
	}
}
