package ping

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// maxRemembered runs; the oldest is forgotten first.
const maxRemembered = 4096

// Watcher remembers from which address each run's requests came. The kernel
// answers them; the watcher only looks.
type Watcher struct {
	conn net.PacketConn

	mu    sync.Mutex
	seen  map[uint64]netip.Addr
	order []uint64
}

// Watch opens a raw ICMP socket on address; it needs CAP_NET_RAW.
func Watch(address netip.Addr) (*Watcher, error) {
	conn, err := net.ListenPacket("ip4:icmp", address.String())
	if err != nil {
		return nil, fmt.Errorf("open a raw ICMP socket (needs CAP_NET_RAW): %w", err)
	}
	return &Watcher{conn: conn, seen: map[uint64]netip.Addr{}}, nil
}

// Close ends Run.
func (w *Watcher) Close() error { return w.conn.Close() }

// Run looks at requests until Close.
func (w *Watcher) Run(ctx context.Context) error {
	packet := make([]byte, 65536)
	for {
		n, from, err := w.conn.ReadFrom(packet)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read an ICMP message: %w", err)
		}
		if m, ok := decode(packet[:n]); ok && m.kind == typeEchoRequest {
			w.remember(m.nonce, address(from))
		}
	}
}

func (w *Watcher) remember(nonce uint64, from netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.seen[nonce]; !known {
		if len(w.order) >= maxRemembered {
			delete(w.seen, w.order[0])
			w.order = w.order[1:]
		}
		w.order = append(w.order, nonce)
	}
	w.seen[nonce] = from
}

// Seen returns the source of the latest request of a run.
func (w *Watcher) Seen(nonce uint64) (netip.Addr, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from, ok := w.seen[nonce]
	return from, ok
}
