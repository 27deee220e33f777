package topology

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

const (
	echoPort   = 7000
	sinkPort   = 7001
	streamPort = 7002
	patience   = 3 * time.Second
)

// serve answers in the namespace until the test ends. TCP and UDP echo tell the
// source that they saw, in a first line; the sink tells the SHA-256 of what it
// was sent; the stream port counts numbered datagrams.
func serve(t *testing.T, n namespace) *counter {
	t.Helper()
	var echo, sink net.Listener
	var datagrams, stream net.PacketConn
	require.NoError(t, n.do(func() error {
		var failed [4]error
		echo, failed[0] = net.Listen("tcp4", fmt.Sprintf(":%d", echoPort))
		sink, failed[1] = net.Listen("tcp4", fmt.Sprintf(":%d", sinkPort))
		datagrams, failed[2] = fragmenting.ListenPacket(context.Background(), "udp4", fmt.Sprintf(":%d", echoPort))
		stream, failed[3] = net.ListenPacket("udp4", fmt.Sprintf(":%d", streamPort))
		return errors.Join(failed[:]...)
	}))
	// No datagram is lost here for want of a turn on a busy machine.
	control(t, stream.(net.Conn), func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	})
	t.Cleanup(func() {
		echo.Close()
		sink.Close()
		datagrams.Close()
		stream.Close()
	})
	go accept(echo, func(conn net.Conn) {
		fmt.Fprintln(conn, conn.RemoteAddr())
		_, _ = io.Copy(conn, conn)
	})
	go accept(sink, func(conn net.Conn) {
		hash := sha256.New()
		_, _ = io.Copy(hash, conn)
		_, _ = conn.Write(hash.Sum(nil))
	})
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, from, err := datagrams.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo(append(fmt.Appendln(nil, from), buffer[:n]...), from)
		}
	}()
	c := &counter{seen: map[uint64]bool{}}
	go c.count(stream)
	return c
}

// fragmenting sockets let routers fragment what they send, so that no answer is
// lost to path MTU discovery.
var fragmenting = net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	})
	return errors.Join(err, failed)
}}

func accept(listener net.Listener, handle func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
			handle(conn)
		}()
	}
}

// dial connects from inside a namespace.
func dial(n namespace, network string, to netip.AddrPort) (conn net.Conn, err error) {
	err = n.do(func() error {
		conn, err = net.DialTimeout(network, to.String(), patience)
		return err
	})
	return conn, err
}

// echoed sends a payload to an echo port, checks that it comes back whole, and
// returns the source that the server saw.
func echoed(n namespace, network string, to netip.Addr, payload []byte) (netip.Addr, error) {
	return echoedAt(n, network, netip.AddrPortFrom(to, echoPort), payload)
}

func echoedAt(n namespace, network string, to netip.AddrPort, payload []byte) (netip.Addr, error) {
	conn, err := dial(n, network, to)
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return exchange(conn, to, payload)
}

// exchange is the same over a connection from dial.
func exchange(conn net.Conn, to netip.AddrPort, payload []byte) (netip.Addr, error) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(payload); err != nil {
		return netip.Addr{}, err
	}
	// A reader as large as any datagram takes one whole.
	reader := bufio.NewReaderSize(conn, 1<<16)
	line, err := reader.ReadString('\n')
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", to, err)
	}
	back := make([]byte, len(payload))
	if _, err := io.ReadFull(reader, back); err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", to, err)
	}
	if !bytes.Equal(back, payload) {
		return netip.Addr{}, fmt.Errorf("%s: %d bytes came back altered", to, len(payload))
	}
	seen, err := netip.ParseAddrPort(strings.TrimSpace(line))
	return seen.Addr(), err
}

// ping sends one ICMP echo request and waits for the reply.
func ping(n namespace, to netip.Addr) error {
	conn, err := rawICMP(n)
	if err != nil {
		return err
	}
	defer conn.Close()
	id := int(binary.BigEndian.Uint16(random(2)))
	request := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: id, Seq: 1, Data: random(56)}}
	packet, err := request.Marshal(nil)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.WriteTo(packet, &net.IPAddr{IP: to.AsSlice()}); err != nil {
		return err
	}
	buffer := make([]byte, 1500)
	for {
		length, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return fmt.Errorf("ping %s: %w", to, err)
		}
		reply, err := icmp.ParseMessage(1, buffer[:length])
		if err != nil || reply.Type != ipv4.ICMPTypeEchoReply || from.String() != to.String() {
			continue
		}
		if e := reply.Body.(*icmp.Echo); e.ID == id && bytes.Equal(e.Data, request.Body.(*icmp.Echo).Data) {
			return nil
		}
	}
}

func rawICMP(n namespace) (conn net.PacketConn, err error) {
	err = n.do(func() error {
		conn, err = net.ListenPacket("ip4:icmp", "0.0.0.0")
		return err
	})
	return conn, err
}

// bulk sends bytes to a sink, which must have received the very same.
func bulk(n namespace, to netip.Addr, size int) error {
	conn, err := dial(n, "tcp4", netip.AddrPortFrom(to, sinkPort))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	payload := random(1 << 20)
	hash := sha256.New()
	for left := size; left > 0; left -= len(payload) {
		hash.Write(payload)
		if _, err := conn.Write(payload); err != nil {
			return fmt.Errorf("send to %s: %w", to, err)
		}
		payload[0]++
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	sum, err := io.ReadAll(conn)
	if err != nil {
		return fmt.Errorf("hear from %s: %w", to, err)
	}
	if !bytes.Equal(sum, hash.Sum(nil)) {
		return fmt.Errorf("what %s received is not what was sent", to)
	}
	return nil
}

func random(size int) []byte {
	b := make([]byte, size)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

// counter counts numbered datagrams.
type counter struct {
	mu   sync.Mutex
	seen map[uint64]bool
}

func (c *counter) count(conn net.PacketConn) {
	buffer := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if n == streamSize {
			c.mu.Lock()
			c.seen[binary.BigEndian.Uint64(buffer)] = true
			c.mu.Unlock()
		}
	}
}

func (c *counter) received() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.seen)
}

// missing names the ranges of the numbers below sent that did not arrive.
func (c *counter) missing(sent int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ranges []string
	for first := 0; first < sent; first++ {
		last := first
		for ; last < sent && !c.seen[uint64(last)]; last++ {
		}
		if last > first {
			ranges = append(ranges, fmt.Sprintf("%d-%d", first, last-1))
			first = last
		}
	}
	return strings.Join(ranges, ", ")
}

const streamSize = 200

// stream sends 1,000 numbered datagrams a second to a namespace's counter until
// it is ended, with its test at the latest.
type stream struct {
	name   string
	to     *counter
	stop   chan struct{}
	halt   func() // closes stop, once
	sent   chan int
	number atomic.Int64 // sent so far
}

func startStream(t *testing.T, name string, n namespace, to netip.Addr, c *counter) *stream {
	t.Helper()
	conn, err := dial(n, "udp4", netip.AddrPortFrom(to, streamPort))
	require.NoError(t, err)
	s := &stream{name: name, to: c, stop: make(chan struct{}), sent: make(chan int, 1)}
	s.halt = sync.OnceFunc(func() { close(s.stop) })
	t.Cleanup(s.halt)
	c.reset()
	go func() {
		defer conn.Close()
		packet := make([]byte, streamSize)
		start := time.Now()
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for number := 0; ; {
			select {
			case <-s.stop:
				s.sent <- number
				return
			case <-ticker.C:
			}
			for ; number < int(time.Since(start)/time.Millisecond); number++ {
				binary.BigEndian.PutUint64(packet, uint64(number))
				_, _ = conn.Write(packet)
			}
			s.number.Store(int64(number))
		}
	}()
	return s
}

// awaitMore waits for that many further datagrams to arrive.
func (s *stream) awaitMore(t *testing.T, datagrams int) {
	t.Helper()
	want := s.to.received() + datagrams
	require.True(t, await(patience, func() bool { return s.to.received() >= want }), "%s stands still", s.name)
}

// awaitSent waits until that many datagrams have been sent in all.
func (s *stream) awaitSent(t *testing.T, datagrams int64) {
	t.Helper()
	require.True(t, await(patience, func() bool { return s.number.Load() >= datagrams }), "%s is not sent", s.name)
}

// outcome of a stream that has ended.
type outcome struct {
	*stream
	sent, lost int
}

// end the streams; what is still on its way has a moment to arrive.
func end(t *testing.T, streams []*stream) (outcomes []outcome) {
	t.Helper()
	for _, s := range streams {
		s.halt()
		outcomes = append(outcomes, outcome{stream: s, sent: <-s.sent})
		require.Greater(t, s.number.Load(), int64(100), s.name)
	}
	lost := func() (all int) {
		for i := range outcomes {
			o := &outcomes[i]
			o.lost = o.sent - o.to.received()
			all += o.lost
		}
		return all
	}
	await(time.Second, func() bool { return lost() == 0 })
	return outcomes
}

// requireNoLoss ends the streams.
func requireNoLoss(t *testing.T, streams []*stream) {
	t.Helper()
	for _, o := range end(t, streams) {
		require.Zero(t, o.lost, "%s: of %d numbered datagrams lost are %s", o.name, o.sent, o.to.missing(o.sent))
	}
}

// requireAllLost ends the streams, after a while.
func requireAllLost(t *testing.T, streams []*stream, why string) {
	t.Helper()
	for _, s := range streams {
		s.awaitSent(t, 500)
	}
	for _, o := range end(t, streams) {
		require.Equal(t, o.sent, o.lost, "%s: datagrams sent and lost %s", o.name, why)
	}
}
