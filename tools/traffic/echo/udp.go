package echo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

// ServeUDP answers datagrams until conn is closed.
func ServeUDP(ctx context.Context, conn *net.UDPConn) error {
	request := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(request)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read a datagram: %w", err)
		}
		if n < NonceBytes {
			continue
		}
		// A lost answer is the client's to notice.
		_, _ = conn.WriteToUDPAddrPort(answer(from, request[:n]), from)
	}
}

func answer(from netip.AddrPort, request []byte) []byte {
	source := netip.AddrPortFrom(from.Addr().Unmap(), from.Port()).String()
	out := make([]byte, 0, 1+len(source)+len(request))
	out = append(out, byte(len(source)))
	out = append(out, source...)
	return append(out, request...)
}

// UDP sends a datagram of random bytes and compares what comes back.
func UDP(ctx context.Context, req Request) (Result, error) {
	size := req.Bytes
	if size <= 0 {
		size = 64
	}
	if size < NonceBytes || size > MaxDatagramBytes {
		return Result{}, fmt.Errorf("a datagram of %d bytes cannot be echoed; ask for %d to %d", size, NonceBytes, MaxDatagramBytes)
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(req.Target))
	if err != nil {
		return Result{}, fmt.Errorf("open a socket towards %s: %w", req.Target, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	attempts := max(req.Attempts, 1)
	var last error
	for attempt := 1; attempt <= attempts && ctx.Err() == nil; attempt++ {
		result, err := attemptUDP(conn, size, req.timeout())
		result.Attempts = attempt
		if err == nil {
			return result, nil
		}
		last = fmt.Errorf("exchange a datagram of %d bytes with %s (attempt %d of %d): %w", size, req.Target, attempt, attempts, err)
	}
	return Result{}, errors.Join(ctx.Err(), last)
}

func attemptUDP(conn *net.UDPConn, size int, timeout time.Duration) (Result, error) {
	sent, err := content(size)
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	if err := conn.SetDeadline(start.Add(timeout)); err != nil {
		return Result{}, err
	}
	if _, err := conn.Write(sent); err != nil {
		return Result{}, err
	}
	buffer := make([]byte, 65536)
	for {
		n, err := conn.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return Result{}, fmt.Errorf("no answer within %s", timeout)
		}
		if err != nil {
			return Result{}, err
		}
		source, back, err := parseAnswer(buffer[:n])
		if err != nil {
			return Result{}, err
		}
		if !bytes.HasPrefix(back, sent[:NonceBytes]) {
			continue // a late answer to an earlier attempt
		}
		return Result{
			ObservedSource:  source,
			LocalAddress:    addrPort(conn.LocalAddr().String()),
			Bytes:           size,
			RTTMicroseconds: microseconds(time.Since(start)),
		}, compare(sent, back)
	}
}

func parseAnswer(b []byte) (netip.AddrPort, []byte, error) {
	if len(b) < 1 || int(b[0]) > maxSourceBytes || len(b) < 1+int(b[0]) {
		return netip.AddrPort{}, nil, fmt.Errorf("an answer of %d bytes names no source", len(b))
	}
	source, err := netip.ParseAddrPort(string(b[1 : 1+b[0]]))
	if err != nil {
		return netip.AddrPort{}, nil, fmt.Errorf("read the source in an answer: %w", err)
	}
	return source, b[1+b[0]:], nil
}
