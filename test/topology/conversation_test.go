package topology

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// conversation is one TCP connection over which numbered messages go there and
// back all the time, each compared with what was sent.
type conversation struct {
	name      string
	stop      chan struct{}
	result    chan error
	exchanged atomic.Int64
}

func startConversation(t *testing.T, name string, n namespace, to netip.Addr) *conversation {
	t.Helper()
	conn, err := dial(n, "tcp4", netip.AddrPortFrom(to, echoPort))
	require.NoError(t, err)
	c := &conversation{name: name, stop: make(chan struct{}), result: make(chan error, 1)}
	go func() {
		defer conn.Close()
		c.result <- c.talk(conn)
	}()
	return c
}

func (c *conversation) talk(conn net.Conn) error {
	reader := bufio.NewReader(conn)
	if _, err := reader.ReadString('\n'); err != nil { // the server greets
		return err
	}
	back := make([]byte, 1000)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for number := int64(1); ; number++ {
		select {
		case <-c.stop:
			return nil
		case <-ticker.C:
		}
		message := bytes.Repeat(fmt.Appendf(nil, "%10d", number), len(back)/10)
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := conn.Write(message); err != nil {
			return fmt.Errorf("send message %d: %w", number, err)
		}
		if _, err := io.ReadFull(reader, back); err != nil {
			return fmt.Errorf("receive message %d: %w", number, err)
		}
		if !bytes.Equal(back, message) {
			return fmt.Errorf("message %d came back as %.20q", number, back)
		}
		c.exchanged.Store(number)
	}
}

// awaitMore waits for that many further messages to come back. A connection
// that was cut off waits for its next retransmission.
func (c *conversation) awaitMore(t *testing.T, messages int64) {
	t.Helper()
	want := c.exchanged.Load() + messages
	ended := false
	require.True(t, await(20*time.Second, func() bool {
		ended = len(c.result) > 0
		return ended || c.exchanged.Load() >= want
	}), "%s stands still", c.name)
	if ended {
		t.Fatalf("%s has ended: %v", c.name, <-c.result)
	}
}

// end the connection, which must have lived.
func (c *conversation) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	require.NoError(t, <-c.result, c.name)
}
