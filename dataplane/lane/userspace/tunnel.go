package userspace

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"
)

const (
	// maxClients bounds the concurrent connections to one UAPI socket.
	maxClients = 32
	// queuePackets that the TUN holds while this process waits for a processor:
	// the default of 500 overflows after a quarter of a second at 2,000 packets a
	// second, which a busy node was seen to take.
	queuePackets = 4096
)

// tunnel is a TUN device with a WireGuard instance behind it.
type tunnel struct {
	name     string
	tun      tun.Device
	wg       *device.Device
	uapi     net.Listener
	done     chan struct{} // closed when the tunnel no longer works
	doneOnce sync.Once
}

// open attaches to the TUN of this name, made if need be, and serves it.
func open(name string, mtu int, log *slog.Logger) (*tunnel, error) {
	dev, err := tun.CreateTUN(name, mtu)
	if err != nil {
		return nil, fmt.Errorf("open TUN %s: %w", name, explain(err))
	}
	if err := setPersistent(dev, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make TUN %s persistent: %w", name, err), dev.Close())
	}
	if err := setQueueLength(name); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	socket, err := ipc.UAPIOpen(name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open UAPI socket of %s: %w", name, err), dev.Close())
	}
	defer socket.Close() // the listener has a descriptor of its own
	t := &tunnel{name: name, tun: dev, done: make(chan struct{})}
	t.wg = device.NewDevice(dev, conn.NewDefaultBind(), deviceLogger(log.With("device", name)))
	t.uapi, err = ipc.UAPIListen(name, socket)
	if err != nil {
		t.wg.Close()
		return nil, fmt.Errorf("serve UAPI socket of %s: %w", name, err)
	}
	go t.serve()
	go func() {
		<-t.wg.Wait() // ends by itself when somebody deletes the TUN
		t.end()
	}()
	return t, nil
}

// serve accepts UAPI clients until the socket is closed or deleted.
func (t *tunnel) serve() {
	defer t.end()
	clients := make(chan struct{}, maxClients)
	for {
		client, err := t.uapi.Accept()
		if err != nil {
			return
		}
		select {
		case clients <- struct{}{}:
			go func() {
				defer func() { <-clients }()
				t.wg.IpcHandle(client)
			}()
		default:
			_ = client.Close()
		}
	}
}

func (t *tunnel) end() { t.doneOnce.Do(func() { close(t.done) }) }

func (t *tunnel) stopped() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// stop ends the WireGuard instance; the TUN stays.
func (t *tunnel) stop() {
	_ = t.uapi.Close()
	t.wg.Close()
	t.end()
}

// remove ends the WireGuard instance and deletes the TUN with it.
func (t *tunnel) remove() error {
	err := setPersistent(t.tun, false)
	t.stop()
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("delete TUN %s: %w", t.name, err)
	}
	return nil
}

// setQueueLength of the TUN, also of one that an earlier process made.
func setQueueLength(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find TUN %s: %w", name, err)
	}
	if err := netlink.LinkSetTxQLen(link, queuePackets); err != nil {
		return fmt.Errorf("set the queue length of TUN %s: %w", name, err)
	}
	return nil
}

// setPersistent makes the TUN outlive its descriptor, or not (TUNSETPERSIST).
func setPersistent(dev tun.Device, persistent bool) error {
	value := 0
	if persistent {
		value = 1
	}
	raw, err := dev.File().SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, value) })
	return errors.Join(err, failed)
}

// explain adds the remedy to the errors that users can do something about.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: another process serves it, is a second weft-wireguard running on this node?", err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: a device of this name but another kind exists, delete it", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: weft-wireguard needs the capability NET_ADMIN", err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: weft-wireguard needs the device /dev/net/tun", err)
	}
	return err
}

// deviceLogger passes wireguard-go's messages on. They name peers by shortened
// public keys and never hold a private or preshared key.
func deviceLogger(log *slog.Logger) *device.Logger {
	return &device.Logger{
		Verbosef: func(format string, args ...any) { log.Debug(fmt.Sprintf(format, args...)) },
		Errorf:   func(format string, args ...any) { log.Warn(fmt.Sprintf(format, args...)) },
	}
}
