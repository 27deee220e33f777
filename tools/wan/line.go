// Package wan emulates the line between two places: packets that enter at one
// end leave at the other after a fixed delay, in order. It runs in user space
// because not every kernel has netem.
package wan

import (
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultQueueBytes bounds what is under way in one direction: 1 Gbit/s for a quarter of a second.
const DefaultQueueBytes = 32 << 20

// Line is one direction: a FIFO of packets, each with the time it is due.
type Line struct {
	out   io.Writer
	delay time.Duration
	limit int

	mu      sync.Mutex
	wake    *sync.Cond
	packets ring
	bytes   int
	closed  bool
	stats   Stats
}

// Stats counts packets.
type Stats struct {
	Delivered uint64
	Dropped   uint64 // the queue was full
	Failed    uint64 // the far end refused
}

type packet struct {
	due  time.Duration // on the monotonic clock
	data []byte
}

// NewLine returns a line to out that delays by delay and holds at most limit
// bytes. Each packet is one Write.
func NewLine(out io.Writer, delay time.Duration, limit int) *Line {
	l := &Line{out: out, delay: delay, limit: limit}
	l.wake = sync.NewCond(&l.mu)
	return l
}

// Send puts a packet on the line; the line owns it from now on. A full line drops it.
func (l *Line) Send(data []byte) {
	due := monotonic() + l.delay
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.bytes+len(data) > l.limit {
		l.stats.Dropped++
		return
	}
	l.bytes += len(data)
	l.packets.push(packet{due: due, data: data})
	if l.packets.len() == 1 {
		l.wake.Signal()
	}
}

// Run delivers packets until Close. It sleeps on the kernel's clock on a thread
// of its own: Go's timers may fire a millisecond late.
func (l *Line) Run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The default slack lets the kernel wake a thread 50 µs late.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for {
		p, ok := l.next()
		if !ok {
			return
		}
		sleepUntil(p.due)
		_, err := l.out.Write(p.data)
		l.delivered(p, err)
	}
}

// next waits for the oldest packet and leaves it in the queue, where it counts as under way.
func (l *Line) next() (packet, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.packets.len() == 0 && !l.closed {
		l.wake.Wait()
	}
	if l.closed {
		return packet{}, false
	}
	return l.packets.front(), true
}

func (l *Line) delivered(p packet, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.packets.pop()
	l.bytes -= len(p.data)
	if err != nil {
		l.stats.Failed++
	} else {
		l.stats.Delivered++
	}
}

// Stats returns the counters.
func (l *Line) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Close drops what is under way and ends Run.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Broadcast()
}

func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

func sleepUntil(due time.Duration) {
	at := unix.NsecToTimespec(int64(due))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
	}
}
