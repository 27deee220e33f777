package probe

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/bpfgen"
)

// enterNamespace moves the calling test into a network namespace of its own,
// which ends with its thread.
func enterNamespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "make a network namespace; run as root")
}

// farEnd is a TUN or TAP device whose far side is this test: what the device
// sends comes out of the file.
type farEnd struct {
	file   *os.File
	header int // bytes before the IP header
	// alter an answer before it goes back; nil drops it.
	alter atomic.Pointer[func(packet []byte) []byte]
}

func newFarEnd(t *testing.T, name string, mode netlink.TuntapMode) *farEnd {
	t.Helper()
	tun := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: mode, Flags: netlink.TUNTAP_NO_PI, Queues: 1}
	require.NoError(t, netlink.LinkAdd(tun))
	device, err := netlink.LinkByName(name)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(device))
	e := &farEnd{file: tun.Fds[0]}
	if mode == netlink.TUNTAP_MODE_TAP {
		e.header = 14
	}
	answer := func(b []byte) []byte { return b }
	e.alter.Store(&answer)
	go e.reflect()
	return e
}

// reflect requests as the border program does: addresses swapped, type changed.
func (e *farEnd) reflect() {
	buffer := make([]byte, 2048)
	for {
		n, err := e.file.Read(buffer)
		if err != nil {
			if errors.Is(err, unix.EAGAIN) {
				continue
			}
			return
		}
		b := append([]byte(nil), buffer[:n]...)
		if len(b) < e.header+packetLength {
			continue
		}
		ip := b[e.header:]
		if ip[0] != 0x45 || ip[9] != 17 || ip[28+offType] != bpfgen.ProbeRequest {
			continue
		}
		for i := range 4 {
			ip[12+i], ip[16+i] = ip[16+i], ip[12+i]
		}
		ip[28+offType] = bpfgen.ProbeAnswer
		ip[28+offReach] = 0x04
		if b = (*e.alter.Load())(b); b != nil {
			_, _ = e.file.Write(b)
		}
	}
}

func (e *farEnd) set(alter func(packet []byte) []byte) { e.alter.Store(&alter) }

func start(t *testing.T, paths []PathTarget, nodes []NodeTarget) *Prober {
	t.Helper()
	p := New(Options{Interval: 20 * time.Millisecond, BurstInterval: 5 * time.Millisecond})
	p.SetTargets(paths, nodes)
	ns, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return p
}

// waitFor a state of the only target.
func waitFor(t *testing.T, p *Prober, state v1alpha1.PathState) Snapshot {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		s := p.Snapshot()
		if len(s.Paths) == 1 && s.Paths[0].State == state || len(s.Nodes) == 1 && s.Nodes[0].State == state {
			return s
		}
		select {
		case <-p.Changed():
		case <-deadline:
			t.Fatalf("not %s: %+v", state, s)
		}
	}
}

func TestPathOverLaneDevice(t *testing.T) {
	enterNamespace(t)
	far := newFarEnd(t, "weft0", netlink.TUNTAP_MODE_TUN)
	p := start(t, []PathTarget{{Link: 1, Device: "weft0", Source: testSource, Destination: testDestination, Cluster: "b"}}, nil)
	s := waitFor(t, p, v1alpha1.PathUp)
	require.Equal(t, "b", s.Paths[0].Target.Cluster)
	require.Positive(t, s.Paths[0].RTTMicroseconds)

	// An answer that was altered in any way that tells whose it is, is none.
	for name, offset := range map[string]int{"source": 15, "destination": 19, "sequence": 28 + offSequence + 3, "clock": 28 + offClock + 7, "sender": 28 + offSender} {
		far.set(func(b []byte) []byte { b[offset] ^= 1; return b })
		waitFor(t, p, v1alpha1.PathDown)
		far.set(func(b []byte) []byte { return b })
		waitFor(t, p, v1alpha1.PathUp)
		t.Log("refused an answer with another", name)
	}
}

// A probe of full size leaves and comes back whole, through a device of exactly
// that MTU. An answer of another length is none.
func TestPaddedProbes(t *testing.T) {
	enterNamespace(t)
	far := newFarEnd(t, "weft0", netlink.TUNTAP_MODE_TUN)
	device, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMTU(device, 1440))
	lengths := make(chan int, 1000)
	var shorten atomic.Bool
	far.set(func(b []byte) []byte {
		lengths <- len(b)
		if shorten.Load() && len(b) > packetLength {
			b = b[:len(b)-1]
			b[2], b[3] = byte(len(b)>>8), byte(len(b))
		}
		return b
	})
	p := start(t, []PathTarget{{Link: 1, Device: "weft0", Source: testSource, Destination: testDestination, MTU: 1440}}, nil)
	padded := func() {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case n := <-lengths:
				if n != packetLength {
					require.Equal(t, 1440, n)
					return
				}
			case <-deadline:
				t.Fatal("no padded probe was sent")
			}
		}
	}
	padded()
	waitFor(t, p, v1alpha1.PathUp)
	// The loss is that of the last hundred probes, one of which is padded. A busy
	// machine may answer one of the first too late.
	require.Eventually(t, func() bool { return p.Snapshot().Paths[0].LossPermille == 0 }, 20*time.Second, 5*time.Millisecond)
	shorten.Store(true)
	padded()
	require.Eventually(t, func() bool { return p.Snapshot().Paths[0].LossPermille > 0 }, 5*time.Second, 5*time.Millisecond)
	require.Equal(t, v1alpha1.PathUp, p.Snapshot().Paths[0].State)
}

// A device whose MTU is smaller than the plan says refuses the padded probes;
// the others go on over the same socket.
func TestPaddedProbeTooLargeForItsDevice(t *testing.T) {
	enterNamespace(t)
	far := newFarEnd(t, "weft0", netlink.TUNTAP_MODE_TUN)
	device, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetMTU(device, 1280))
	var largest atomic.Int64
	far.set(func(b []byte) []byte { largest.Store(max(largest.Load(), int64(len(b)))); return b })
	p := start(t, []PathTarget{{Link: 1, Device: "weft0", Source: testSource, Destination: testDestination, MTU: 1281}}, nil)
	since := waitFor(t, p, v1alpha1.PathUp).Paths[0].Since
	require.Eventually(t, func() bool { return p.Snapshot().Paths[0].LossPermille > 0 }, 10*time.Second, 5*time.Millisecond)
	s := p.Snapshot().Paths[0]
	require.Equal(t, v1alpha1.PathUp, s.State)
	require.Equal(t, since, s.Since)
	require.LessOrEqual(t, s.LossPermille, int32(100), "one probe of those sent so far")
	require.EqualValues(t, packetLength, largest.Load())
}

func TestNodeOverEthernetDevice(t *testing.T) {
	enterNamespace(t)
	far := newFarEnd(t, "weft-vx", netlink.TUNTAP_MODE_TAP)
	p := start(t, nil, []NodeTarget{{Node: "a1", GatewayID: 1, Device: "weft-vx",
		Source: netip.MustParseAddr("100.64.0.2"), Destination: netip.MustParseAddr("100.64.0.1")}})
	s := waitFor(t, p, v1alpha1.PathUp)
	require.Equal(t, uint64(0x04), s.Nodes[0].Reach.Bits[0])
	far.set(func([]byte) []byte { return nil })
	s = waitFor(t, p, v1alpha1.PathDown)
	require.Zero(t, s.Nodes[0].Reach.Bits[0], "a dead gateway reaches nothing")
}

func TestDeviceVanishesAndReturns(t *testing.T) {
	enterNamespace(t)
	p := start(t, []PathTarget{{Link: 1, Device: "weft0", Source: testSource, Destination: testDestination}}, nil)
	waitFor(t, p, v1alpha1.PathDown) // there is no device yet
	far := newFarEnd(t, "weft0", netlink.TUNTAP_MODE_TUN)
	waitFor(t, p, v1alpha1.PathUp)
	device, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkDel(device))
	far.file.Close()
	waitFor(t, p, v1alpha1.PathDown)
	newFarEnd(t, "weft0", netlink.TUNTAP_MODE_TUN)
	again, err := netlink.LinkByName("weft0")
	require.NoError(t, err)
	require.NotEqual(t, device.Attrs().Index, again.Attrs().Index)
	waitFor(t, p, v1alpha1.PathUp)
}

func TestTargetsKeepTheirHistory(t *testing.T) {
	enterNamespace(t)
	newFarEnd(t, "weft0", netlink.TUNTAP_MODE_TUN)
	target := PathTarget{Link: 1, Device: "weft0", Source: testSource, Destination: testDestination}
	p := start(t, []PathTarget{target}, nil)
	since := waitFor(t, p, v1alpha1.PathUp).Paths[0].Since
	target.Link = 9
	p.SetTargets([]PathTarget{target}, nil)
	s := p.Snapshot()
	require.Equal(t, v1alpha1.PathUp, s.Paths[0].State)
	require.Equal(t, since, s.Paths[0].Since)
	require.EqualValues(t, 9, s.Paths[0].Target.Link)
	target.Destination = target.Destination.Next()
	p.SetTargets([]PathTarget{target}, nil)
	require.Equal(t, v1alpha1.PathUnknown, p.Snapshot().Paths[0].State)
	p.SetTargets(nil, nil)
	require.Empty(t, p.Snapshot().Paths)
}
