package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// statusFolder holds a FabricNode per agent, whose status that agent
	// writes.
	statusFolder = "status"
	// settleTime lets several writes to the folder become one reading.
	settleTime = 20 * time.Millisecond
	// rereadInterval is for file systems that do not tell of changes.
	rereadInterval = 5 * time.Second
)

// Directory follows a folder of YAML files that hold the objects. Files should
// be put in place by rename. While a file cannot be read, everything stays as
// it was.
type Directory struct {
	path    string
	node    string
	log     *slog.Logger
	changed chan struct{}

	mu       sync.Mutex
	snapshot Snapshot
	problem  string
}

var _ Source = (*Directory)(nil)

// NewDirectory returns a source of the objects in the folder, for the agent of
// a node.
func NewDirectory(path, node string, log *slog.Logger) *Directory {
	return &Directory{path: path, node: node, log: log, changed: make(chan struct{}, 1)}
}

// Run follows the folder until the context ends.
func (d *Directory) Run(ctx context.Context) error {
	// The folder itself must be there: an empty one would mean "remove all".
	if err := os.Mkdir(filepath.Join(d.path, statusFolder), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make status folder: %w", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", d.path, err)
	}
	defer func() { _ = watcher.Close() }()
	for _, folder := range []string{d.path, filepath.Join(d.path, statusFolder)} {
		if err := watcher.Add(folder); err != nil {
			return fmt.Errorf("watch %s: %w", folder, err)
		}
	}
	settle := time.NewTimer(0)
	reread := time.NewTicker(rereadInterval)
	defer settle.Stop()
	defer reread.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
			settle.Reset(settleTime)
		case err := <-watcher.Errors:
			d.log.Warn("watching the folder failed, reading it again", "path", d.path, "error", err)
			settle.Reset(settleTime)
		case <-settle.C:
			d.read()
		case <-reread.C:
			d.read()
		}
	}
}

// read takes over what the folder holds, if all of it can be read.
func (d *Directory) read() {
	snapshot, err := load(d.path, d.node)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if d.problem != err.Error() {
			d.problem = err.Error()
			d.log.Error("the folder cannot be read, the last good state stays", "path", d.path, "error", err)
		}
		return
	}
	d.problem = ""
	if !reflect.DeepEqual(snapshot, d.snapshot) {
		d.snapshot = snapshot
		notify(d.changed)
	}
}

// Snapshot returns the last state that could be read.
func (d *Directory) Snapshot() Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshot
}

// Changed delivers after a change.
func (d *Directory) Changed() <-chan struct{} { return d.changed }

// WriteStatus replaces the node's file in the status folder.
func (d *Directory) WriteStatus(_ context.Context, status v1alpha1.FabricNodeStatus) error {
	object := v1alpha1.FabricNode{Status: status}
	object.APIVersion, object.Kind, object.Name = v1alpha1.GroupVersion.String(), "FabricNode", d.node
	data, err := yaml.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	path := filepath.Join(d.path, statusFolder, d.node+".yaml")
	if err = os.WriteFile(path+".new", data, 0o644); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write status of FabricNode %s: %w", d.node, err)
	}
	return nil
}
