package wan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// End is one end of a link: a TUN device to be made in a network namespace.
type End struct{ Namespace, Device string }

// Limits of a TUN end.
const (
	mtu = 1500
	// A packet with segmentation offload and its virtio header.
	maxPacket   = 65535 + virtioHeader
	queueLength = 4096 // packets between the kernel and Run
	// virtioHeader precedes every packet on the file descriptor. It says what
	// is left to do (checksum, segmentation) and passes the line unchanged, so
	// that a big segment costs as much as a small packet.
	virtioHeader = 10
)

// offloads that a TUN accepts; the UDP ones need Linux 6.2.
const (
	tunCsum, tunTSO4, tunTSO6, tunUSO4, tunUSO6 = 0x01, 0x02, 0x04, 0x20, 0x40
)

// Open makes the TUN device of the end, up, and returns its file.
func (e End) Open() (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread stays in the namespace
		file, err := e.open()
		done <- result{file, err}
	}()
	r := <-done
	if r.err != nil {
		return nil, fmt.Errorf("make device %s in %s: %w", e.Device, e.Namespace, r.err)
	}
	return r.file, nil
}

func (e End) open() (*os.File, error) {
	ns, err := netns.GetFromName(e.Namespace)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := netns.Set(ns); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "/dev/net/tun")
	request, err := unix.NewIfreq(e.Device)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = offload(fd)
	}
	if err == nil {
		err = bringUp(e.Device)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func offload(fd int) error {
	err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tunCsum|tunTSO4|tunTSO6|tunUSO4|tunUSO6)
	if errors.Is(err, unix.EINVAL) {
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tunCsum|tunTSO4|tunTSO6)
	}
	return err
}

func bringUp(device string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return err
	}
	if err := netlink.LinkSetTxQLen(link, queueLength); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// Join carries packets between two TUN files until the context ends or one
// fails, each direction delayed by Line.
func Join(ctx context.Context, a, b *os.File, forth, back *Line) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go forth.Run()
	go back.Run()
	defer forth.Close()
	defer back.Close()
	go func() { cancel(pump(a, forth)) }()
	go func() { cancel(pump(b, back)) }()
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// pump reads with blocking calls on a thread of its own, which wakes faster
// than a goroutine that waits for the poller.
func pump(from *os.File, line *Line) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd := int(from.Fd()) // sets blocking mode
	buffer := make([]byte, maxPacket)
	for {
		n, err := unix.Read(fd, buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read from %s: %w", from.Name(), err)
		}
		packet := make([]byte, n)
		copy(packet, buffer[:n])
		line.Send(packet)
	}
}
