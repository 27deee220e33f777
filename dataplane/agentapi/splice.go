package agentapi

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// spliceIdle is how long a splice may be silent in both directions. A living
// channel sends keepalives far more often.
const spliceIdle = 5 * time.Minute

// spliceBuffer in bytes, one per direction: a hub may hold many splices.
const spliceBuffer = 8 << 10

// halfCloser is a connection whose write side can end by itself: TCP and TLS.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// readsFirst reads what a buffer holds before the connection.
type readsFirst struct {
	halfCloser
	reader io.Reader
}

func (r readsFirst) Read(b []byte) (int, error) { return r.reader.Read(b) }

// spliceEnd is one running splice.
type spliceEnd struct {
	all      *splices
	passage  passage
	group    group
	stop     chan struct{}
	stopOnce sync.Once
}

func (e *spliceEnd) end() { e.stopOnce.Do(func() { close(e.stop) }) }

func (e *spliceEnd) leave() {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	delete(e.all.ends, e)
}

// closing closes a connection when the splice is told to stop or the context
// ends, until the returned function is called.
func (e *spliceEnd) closing(ctx context.Context, conn net.Conn) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			conn.Close()
		case <-e.stop:
			conn.Close()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// splice copies both ways until both ends have ended, one fails, nothing moves
// for spliceIdle, or the splice is told to stop. The caller closes both.
func (e *spliceEnd) splice(a, b halfCloser) { e.spliceWithin(spliceIdle, a, b) }

func (e *spliceEnd) spliceWithin(idle time.Duration, a, b halfCloser) {
	var active atomic.Int64
	active.Store(time.Now().UnixNano())
	finished := make(chan error, 2)
	go func() { finished <- copyHalf(b, a, &active, idle) }()
	go func() { finished <- copyHalf(a, b, &active, idle) }()
	for left := 2; left > 0; {
		select {
		case err := <-finished:
			left--
			if err != nil {
				a.Close()
				b.Close()
			}
		case <-e.stop:
			a.Close()
			b.Close()
			for ; left > 0; left-- {
				<-finished
			}
		}
	}
}

var errIdle = errors.New("idle")

// copyHalf copies one direction and hands its end on. A nil error is an
// orderly end.
func copyHalf(to, from halfCloser, active *atomic.Int64, idle time.Duration) error {
	buffer := make([]byte, spliceBuffer)
	for {
		if err := from.SetReadDeadline(time.Now().Add(idle)); err != nil {
			return err
		}
		n, err := from.Read(buffer)
		if n > 0 {
			active.Store(time.Now().UnixNano())
			if err := to.SetWriteDeadline(time.Now().Add(idle)); err != nil {
				return err
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return to.CloseWrite()
		case errors.Is(err, os.ErrDeadlineExceeded):
			if time.Since(time.Unix(0, active.Load())) >= idle {
				return errIdle
			}
		default:
			return err
		}
	}
}
