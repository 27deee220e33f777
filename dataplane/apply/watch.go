package apply

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/dataplane/lane"
	"github.com/weft-fabric/weft/dataplane/plan"
)

// Watch returns a channel that receives (never more than one pending) when
// somebody may have changed what Apply made: devices, addresses, routes, rules,
// nftables, or a restarted userspace WireGuard. It ends with the context.
func (e *Executor) Watch(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, source := range []func(context.Context, func()) error{watchRoutes, watchRules, watchNftables, watchSockets} {
		go repeat(ctx, func() error { return source(ctx, notify) }, notify)
	}
	return changed
}

// repeat starts a watch again when it breaks off, and reports a change then, as
// something may have been missed.
func repeat(ctx context.Context, watch func() error, notify func()) {
	for ctx.Err() == nil {
		_ = watch()
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
			notify()
		}
	}
}

// watchRoutes sees deletions of what is ours, and devices that change.
func watchRoutes(ctx context.Context, notify func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links := make(chan netlink.LinkUpdate, 16)
	routes := make(chan netlink.RouteUpdate, 16)
	addresses := make(chan netlink.AddrUpdate, 16)
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return err
	}
	if err := netlink.RouteSubscribe(routes, ctx.Done()); err != nil {
		return err
	}
	if err := netlink.AddrSubscribe(addresses, ctx.Done()); err != nil {
		return err
	}
	ours := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case update, open := <-links:
			if !open {
				return os.ErrClosed
			}
			name := update.Link.Attrs().Name
			if name == plan.OverlayDevice || lane.ValidName(name) {
				ours[int(update.Index)] = true
				notify()
			}
		case update, open := <-routes:
			if !open {
				return os.ErrClosed
			}
			if update.Type == unix.RTM_DELROUTE && update.Protocol == routeProtocol {
				notify()
			}
		case update, open := <-addresses:
			if !open {
				return os.ErrClosed
			}
			if !update.NewAddr && ours[update.LinkIndex] {
				notify()
			}
		}
	}
}

// watchRules sees deletions of rules, ours or not: their messages are few.
func watchRules(ctx context.Context, notify func()) error {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_RULE)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, socket.Close)()
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			socket.Close()
			return err
		}
		for _, message := range messages {
			if message.Header.Type == unix.RTM_DELRULE {
				notify()
			}
		}
	}
}

// watchNftables sees deletions in our table.
func watchNftables(ctx context.Context, notify func()) error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	monitor := nftables.NewMonitor()
	events, err := connection.AddMonitor(monitor)
	if err != nil {
		return err
	}
	defer monitor.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-events:
			if !open {
				return os.ErrClosed
			}
			if event.Error != nil {
				return event.Error
			}
			if deletesOurs(event) {
				notify()
			}
		}
	}
}

func deletesOurs(event *nftables.MonitorEvent) bool {
	switch data := event.Data.(type) {
	case *nftables.Table:
		return event.Type == nftables.MonitorEventTypeDelTable && data.Name == plan.NftablesTable
	case *nftables.Chain:
		return event.Type == nftables.MonitorEventTypeDelChain && data.Table != nil && data.Table.Name == plan.NftablesTable
	case *nftables.Rule:
		return event.Type == nftables.MonitorEventTypeDelRule && data.Table != nil && data.Table.Name == plan.NftablesTable
	}
	return false
}

// watchSockets sees weft-wireguard coming back: its sockets are new, and its
// devices have neither key nor peers.
func watchSockets(ctx context.Context, notify func()) error {
	folder := filepath.Dir(lane.SocketPath(""))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(folder); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-watcher.Events:
			if !open {
				return os.ErrClosed
			}
			if event.Has(fsnotify.Create) {
				notify()
			}
			if event.Has(fsnotify.Remove) && event.Name == folder {
				return os.ErrNotExist
			}
		case err := <-watcher.Errors:
			return err
		}
	}
}
