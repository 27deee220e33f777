package echo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// connectionLife bounds a connection to the server.
const connectionLife = 10 * time.Minute

// ServeTCP answers connections until the listener is closed; ctx ends those
// that are open.
func ServeTCP(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept an echo connection: %w", err)
		}
		go func() {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			defer conn.Close()
			echoTCP(conn)
		}()
	}
}

// echoTCP serves one connection. Its errors are the client's to see.
func echoTCP(conn net.Conn) {
	if conn.SetDeadline(time.Now().Add(connectionLife)) != nil {
		return
	}
	if Greet(conn) != nil {
		return
	}
	_, _ = io.Copy(conn, conn)
}

// TCP opens a connection, reads the source address that the server saw, sends
// random bytes and compares what comes back.
func TCP(ctx context.Context, req Request) (Result, error) {
	return TCPTo(ctx, req.Target.String(), req)
}

// TCPTo does it with the server at address, whose host may be a name, instead of
// the target.
func TCPTo(ctx context.Context, address string, req Request) (Result, error) {
	size := req.Bytes
	if size <= 0 {
		size = 64
	}
	if size > maxStreamBytes {
		return Result{}, fmt.Errorf("%d bytes are too many for an echo; ask for at most %d", size, maxStreamBytes)
	}
	sent, err := content(size)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, req.timeout())
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp4", address)
	if err != nil {
		return Result{}, fmt.Errorf("connect to the echo server: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return Result{}, fmt.Errorf("set the deadline of %s: %w", address, err)
	}

	reader := bufio.NewReader(conn)
	greeting, err := ReadGreeting(reader)
	if err != nil {
		return Result{}, fmt.Errorf("read the source that %s saw: %w", address, err)
	}
	start := time.Now()
	back, err := exchange(conn, reader, sent)
	if err != nil {
		return Result{}, fmt.Errorf("exchange %d bytes with %s: %w", size, address, err)
	}
	return Result{
		ObservedSource:  greeting.Source,
		Server:          greeting.Server,
		LocalAddress:    addrPort(conn.LocalAddr().String()),
		Bytes:           size,
		Attempts:        1,
		RTTMicroseconds: microseconds(time.Since(start)),
	}, compare(sent, back)
}

// exchange writes and reads at the same time: more bytes than the sockets
// buffer would otherwise block both ends.
func exchange(conn io.Writer, reader io.Reader, sent []byte) ([]byte, error) {
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		written <- err
	}()
	back := make([]byte, len(sent))
	if _, err := io.ReadFull(reader, back); err != nil {
		return nil, err
	}
	return back, <-written
}
