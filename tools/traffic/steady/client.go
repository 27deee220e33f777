package steady

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/weft-fabric/weft/tools/traffic/echo"
)

// Run opens the connection, keeps bytes moving until its duration or ctx ends,
// waits for the last of them, and calls progress now and then. A connection
// that breaks is no error: the report tells of it.
func Run(ctx context.Context, req Request, progress func(Report)) (Report, error) {
	req, err := req.validate()
	if err != nil {
		return Report{}, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp4", req.Target.String())
	if err != nil {
		return Report{}, fmt.Errorf("open a steady connection: %w", err)
	}
	defer conn.Close()
	c := &client{conn: conn.(*net.TCPConn), reader: bufio.NewReader(conn), req: req, progress: progress}
	c.report = Report{ID: req.ID, Start: time.Now()}
	if err := c.greet(); err != nil {
		return Report{}, fmt.Errorf("read the source that %s saw: %w", req.Target, err)
	}
	progress(c.get())

	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.DurationMilliseconds)*time.Millisecond)
	defer cancel()
	received := make(chan error, 1)
	go func() {
		received <- c.receive(ctx)
		cancel() // nothing more to send for
	}()
	sent := c.send(ctx)
	// The server answers the end of what we send with the end of what it does.
	_ = c.conn.SetReadDeadline(time.Now().Add(drain))
	_ = c.conn.CloseWrite()
	c.conclude(sent, <-received)
	progress(c.get())
	return c.get(), nil
}

type client struct {
	conn     *net.TCPConn
	reader   *bufio.Reader
	req      Request
	progress func(Report)

	mu     sync.Mutex
	report Report
	last   time.Time // of an arrival
}

func (c *client) get() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}

// greet reads the line with which an echo server begins.
func (c *client) greet() error {
	if err := c.conn.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	greeting, err := echo.ReadGreeting(c.reader)
	if err != nil {
		return err
	}
	c.report.ObservedSource = greeting.Source
	c.report.Local, err = netip.ParseAddrPort(c.conn.LocalAddr().String())
	if err != nil {
		return err
	}
	return c.conn.SetReadDeadline(time.Time{})
}

// send writes the next bytes of the sequence at every tick. One that comes late
// is not made up for.
func (c *client) send(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetWriteDeadline(time.Now()) })
	defer stop()
	sequence := c.sequence()
	chunk := make([]byte, max(1, c.req.BytesPerSecond*int(tick.Milliseconds())/1000))
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ticks := 1; ; ticks++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		_, _ = sequence.Read(chunk) // never fails
		n, err := c.conn.Write(chunk)
		c.mu.Lock()
		c.report.Sent += int64(n)
		c.mu.Unlock()
		if err != nil {
			if ctx.Err() != nil {
				return nil // told to end, whatever was being written
			}
			return err
		}
		if ticks%40 == 0 {
			c.progress(c.get())
		}
	}
}

// receive compares what comes back until its end, which must not come before
// that of ctx.
func (c *client) receive(ctx context.Context) error {
	sequence := c.sequence()
	got, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := c.reader.Read(got)
		if n > 0 {
			_, _ = sequence.Read(want[:n]) // never fails
			if !c.arrived(got[:n], want[:n]) {
				// Ends the sender too.
				_ = c.conn.SetLinger(0)
				_ = c.conn.Close()
				return errCorrupt
			}
		}
		if errors.Is(err, io.EOF) && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var errCorrupt = errors.New("a byte came back that was not the next one sent")

// arrived accounts for bytes that came back.
func (c *client) arrived(got, want []byte) bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		if silence := now.Sub(c.last).Microseconds(); silence > c.report.LongestSilenceMicroseconds {
			c.report.LongestSilenceMicroseconds, c.report.LongestSilenceEnd = silence, now
		}
	}
	c.last = now
	if !bytes.Equal(got, want) {
		c.report.Corrupt = true
		return false
	}
	c.report.Verified += int64(len(got))
	return true
}

// conclude judges how the connection ended.
func (c *client) conclude(sent, received error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.End, c.report.Done = time.Now(), true
	switch {
	case c.report.Corrupt:
		c.report.Error = fmt.Sprintf("after %d bytes: %v", c.report.Verified, errCorrupt)
	case received != nil:
		c.report.Broken, c.report.Error = true, fmt.Sprintf("after %d bytes: %v", c.report.Verified, received)
	case sent != nil:
		c.report.Broken, c.report.Error = true, fmt.Sprintf("after %d bytes sent: %v", c.report.Sent, sent)
	case c.report.Verified != c.report.Sent:
		c.report.Broken = true
		c.report.Error = fmt.Sprintf("the server ended it after %d of %d bytes", c.report.Verified, c.report.Sent)
	}
}

// sequence of a connection: both the sender and the comparison make it anew.
func (c *client) sequence() *rand.ChaCha8 {
	var seed [32]byte
	binary.BigEndian.PutUint32(seed[:], c.req.ID)
	return rand.NewChaCha8(seed)
}
