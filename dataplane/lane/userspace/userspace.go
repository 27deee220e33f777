// Package userspace serves the lanes that agents request where the kernel has
// no WireGuard: one persistent TUN device and one wireguard-go instance each,
// configured through wgctrl's UAPI socket like a kernel device.
//
// The TUN outlives the process, so that addresses, routes and programs on it
// stay over a restart. Keys and peers do not: the agent puts them back.
package userspace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/weft-fabric/weft/dataplane/lane"
)

// resyncInterval also bounds how long a lane that broke down stays down.
const resyncInterval = 2 * time.Second

// Options of Run.
type Options struct {
	// RunDir holds the requests, see lane.RequestFolder.
	RunDir string
	Log    *slog.Logger
}

// Run serves all requested lanes until the context ends. It then stops them and
// leaves their TUN devices behind.
func Run(ctx context.Context, options Options) error {
	folder := lane.RequestFolder(options.RunDir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make folder of lane requests: %w", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch lane requests: %w", err)
	}
	defer watcher.Close()

	s := &server{options: options, tunnels: map[string]*tunnel{}}
	defer s.stopAll()
	resync := time.NewTicker(resyncInterval)
	defer resync.Stop()
	for {
		// Adding again is free, and needed if the folder was made anew.
		if err := watcher.Add(folder); err != nil {
			options.Log.Error("cannot watch lane requests, looking every few seconds", "error", err)
		}
		s.reconcile()
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
		case err := <-watcher.Errors:
			options.Log.Warn("watching lane requests", "error", err)
		case <-resync.C:
		case <-s.anyStopped():
		}
	}
}

type server struct {
	options Options
	tunnels map[string]*tunnel
	failed  string // the last error, so that it is logged once
}

// reconcile opens what is requested and removes what is not. Without the folder
// nothing is known, and nothing is removed.
func (s *server) reconcile() {
	requests, err := lane.Requests(s.options.RunDir)
	if errors.Is(err, os.ErrNotExist) {
		s.report(errors.Join(err, os.MkdirAll(lane.RequestFolder(s.options.RunDir), 0o700)))
		return
	}
	failed := []error{err}
	if err == nil {
		for name, t := range s.tunnels {
			if _, requested := requests[name]; !requested {
				failed = append(failed, t.remove())
				delete(s.tunnels, name)
				s.options.Log.Info("lane removed", "device", name)
			}
		}
	}
	for name, request := range requests {
		failed = append(failed, s.ensure(name, request.MTU))
	}
	s.report(errors.Join(failed...))
}

func (s *server) ensure(name string, mtu int) error {
	if t := s.tunnels[name]; t != nil {
		if !t.stopped() {
			return nil
		}
		t.stop()
		delete(s.tunnels, name)
		s.options.Log.Warn("lane had stopped, starting it again", "device", name)
	}
	t, err := open(name, mtu, s.options.Log)
	if err != nil {
		return err
	}
	s.tunnels[name] = t
	s.options.Log.Info("lane served", "device", name, "mtu", mtu)
	return nil
}

// anyStopped returns a channel that is readable once a tunnel ended by itself.
// With few lanes, waiting for the first suffices: the resync finds the others.
func (s *server) anyStopped() <-chan struct{} {
	for _, t := range s.tunnels {
		return t.done
	}
	return nil
}

func (s *server) report(err error) {
	message := ""
	if err != nil {
		message = err.Error()
	}
	if message != s.failed && message != "" {
		s.options.Log.Error("lane requests", "error", message)
	}
	s.failed = message
}

func (s *server) stopAll() {
	for _, t := range s.tunnels {
		t.stop()
	}
}
