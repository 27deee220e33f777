package stream

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxFlows = 256
	// receiveBufferBytes holds several seconds of packets, so that a receiver
	// that the scheduler leaves waiting loses nothing by itself.
	receiveBufferBytes = 32 << 20
)

// Receiver counts the packets of every flow that arrives at one socket.
type Receiver struct {
	conn *net.UDPConn

	mu      sync.Mutex
	flows   map[uint32]*account
	dropped uint32
}

// NewReceiver prepares conn: a large buffer, and the kernel's own count of
// datagrams that did not fit into it.
func NewReceiver(conn *net.UDPConn) (*Receiver, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reach the socket of %s: %w", conn.LocalAddr(), err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		// Beyond net.core.rmem_max only with CAP_NET_ADMIN; without it, as much
		// as that allows.
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBufferBytes) != nil {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBufferBytes)
		}
		if failed == nil {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the socket of %s: %w", conn.LocalAddr(), err)
	}
	return &Receiver{conn: conn, flows: map[uint32]*account{}}, nil
}

// Run counts packets until the socket is closed.
func (r *Receiver) Run(ctx context.Context) error {
	packet := make([]byte, 65536)
	control := make([]byte, 128)
	for {
		n, controlLen, _, _, err := r.conn.ReadMsgUDPAddrPort(packet, control)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read a numbered packet: %w", err)
		}
		r.count(packet[:n], control[:controlLen], time.Now())
	}
}

func (r *Receiver) count(packet, control []byte, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dropped, ok := overflow(control); ok {
		r.dropped = dropped
	}
	flow, number, err := decode(packet)
	if err != nil {
		return
	}
	a := r.flows[flow]
	if a == nil {
		if len(r.flows) >= maxFlows {
			return
		}
		a = newAccount(flow)
		r.flows[flow] = a
	}
	a.add(number, now)
}

// Received reports a flow; a flow of which nothing arrived is empty.
func (r *Receiver) Received(flow uint32) Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.flows[flow]
	if a == nil {
		a = newAccount(flow)
	}
	out := a.summary()
	out.SocketDropped = r.dropped
	return out
}

// Forget frees the memory of a flow.
func (r *Receiver) Forget(flow uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flows, flow)
}

// overflow finds the kernel's count of dropped datagrams among the control
// messages. The kernel leaves it out while it is zero.
func overflow(control []byte) (uint32, bool) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, false
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data), true
		}
	}
	return 0, false
}
