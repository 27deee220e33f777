package bulk

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"
)

// transferLife bounds a connection to the server.
const transferLife = 15 * time.Minute

// Serve answers transfers until the listener is closed; ctx ends those that
// are open.
func Serve(ctx context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept a bulk connection: %w", err)
		}
		go func() {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			defer conn.Close()
			serve(conn)
		}()
	}
}

// serve runs one transfer. On an error it closes the connection, which the
// client sees.
func serve(conn net.Conn) {
	if conn.SetDeadline(time.Now().Add(transferLife)) != nil {
		return
	}
	reader := bufio.NewReaderSize(conn, chunkBytes)
	var h header
	if readLine(reader, &h) != nil || h.validate() != nil {
		return
	}
	own, err := serverEnd(conn, reader, h)
	if err != nil {
		return
	}
	_ = writeLine(conn, own)
}

func serverEnd(conn net.Conn, reader *bufio.Reader, h header) (summary, error) {
	if h.Direction == Upload {
		return receive(reader, h)
	}
	return send(conn, h)
}
