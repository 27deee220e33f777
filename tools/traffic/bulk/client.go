package bulk

import (
	"bufio"
	"context"
	"fmt"
	"net"
)

// Transfer runs one transfer against a server and checks that both ends moved
// the same bytes.
func Transfer(ctx context.Context, req Request) (Result, error) {
	h := req.header()
	if err := h.validate(); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, req.timeout())
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", req.Target.String())
	if err != nil {
		return Result{}, fmt.Errorf("connect to the bulk server: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	own, far, err := clientEnd(conn, h)
	if err != nil {
		return Result{}, fmt.Errorf("%s %s: %w", h.Direction, req.Target, err)
	}
	if own.Bytes != far.Bytes || own.SHA256 != far.SHA256 {
		return Result{}, fmt.Errorf("%s %s: %d bytes (SHA-256 %q) here, %d bytes (SHA-256 %q) there",
			h.Direction, req.Target, own.Bytes, own.SHA256, far.Bytes, far.SHA256)
	}
	if h.DurationMilliseconds == 0 && own.Bytes != h.Bytes {
		return Result{}, fmt.Errorf("%s %s: moved %d bytes of %d", h.Direction, req.Target, own.Bytes, h.Bytes)
	}
	if h.Direction == Upload {
		return result(far), nil
	}
	return result(own), nil
}

// clientEnd returns the summaries of this end and of the server.
func clientEnd(conn net.Conn, h header) (own, far summary, err error) {
	if err := writeLine(conn, h); err != nil {
		return own, far, fmt.Errorf("send the request: %w", err)
	}
	reader := bufio.NewReaderSize(conn, chunkBytes)
	if h.Direction == Upload {
		own, err = send(conn, h)
	} else {
		own, err = receive(reader, h)
	}
	if err != nil {
		return own, far, err
	}
	if err := readLine(reader, &far); err != nil {
		return own, far, fmt.Errorf("read what the server moved: %w", err)
	}
	return own, far, nil
}
