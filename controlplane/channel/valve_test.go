package channel

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// valve forwards TCP connections until it holds everything back, as a link
// does that drops silently.
type valve struct {
	listener net.Listener
	target   string
	held     atomic.Bool
	mu       sync.Mutex
	conns    []net.Conn
}

func newValve(t *testing.T, target string) *valve {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &valve{listener: listener, target: target}
	var tasks sync.WaitGroup
	tasks.Go(func() { v.accept(&tasks) })
	t.Cleanup(func() {
		listener.Close()
		v.mu.Lock()
		for _, c := range v.conns {
			c.Close()
		}
		v.mu.Unlock()
		tasks.Wait()
	})
	return v
}

func (v *valve) Addr() string { return v.listener.Addr().String() }

// Hold drops all bytes from now on, without closing anything.
func (v *valve) Hold() { v.held.Store(true) }

func (v *valve) accept(tasks *sync.WaitGroup) {
	for {
		near, err := v.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", v.target)
		if err != nil {
			near.Close()
			continue
		}
		v.mu.Lock()
		v.conns = append(v.conns, near, far)
		v.mu.Unlock()
		tasks.Go(func() { v.copy(near, far) })
		tasks.Go(func() { v.copy(far, near) })
	}
}

func (v *valve) copy(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if v.held.Load() {
			if err != nil {
				return // the other side is not told
			}
			continue
		}
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}
