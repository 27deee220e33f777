// Package forward carries TCP connections from a loopback port of the machine
// to an address inside a network namespace. It is the only door into the lab.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/weft-fabric/weft/tools/lab/machine"
)

// maxConnections bounds what one forwarder carries at a time.
const maxConnections = 1024

// Run listens until the context ends.
func Run(ctx context.Context, listen, namespace, to string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen for the API server (is the port taken?): %w", err)
	}
	go func() {
		<-ctx.Done()
		_ = listener.Close()
	}()
	slots := make(chan struct{}, maxConnections)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept on %s: %w", listen, err)
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			defer conn.Close()
			if err := carry(conn, namespace, to); err != nil {
				slog.Info("connection ended", "to", to, "err", err)
			}
		}()
	}
}

func carry(conn net.Conn, namespace, to string) error {
	var far net.Conn
	err := machine.InNamespace(namespace, func() (err error) {
		far, err = net.DialTimeout("tcp", to, 5*time.Second)
		return err
	})
	if err != nil {
		return err
	}
	defer far.Close()
	done := make(chan error, 2)
	go func() { done <- pipe(far, conn) }()
	go func() { done <- pipe(conn, far) }()
	return errors.Join(<-done, <-done)
}

// pipe copies one direction and passes its end on.
func pipe(to, from net.Conn) error {
	_, err := io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	return err
}
