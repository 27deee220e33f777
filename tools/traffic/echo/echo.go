// Package echo is a server that first tells the source address it saw and then
// returns every byte, over TCP and UDP, and the clients that check both.
//
// TCP: the server writes its view of the client's address, a space, its own
// address and a newline, then echoes. UDP: an answer is one length byte, that many bytes of source
// address, and the request.
package echo

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// NonceBytes is the least size of a UDP request: it starts with a nonce, so
	// that a late answer to an earlier request is told apart.
	NonceBytes = 16
	// MaxDatagramBytes is the largest UDP request: the answer's source address
	// (at most 64 bytes) has to fit into an IPv4 datagram as well.
	MaxDatagramBytes = 65507 - 65

	maxSourceBytes = 64
	maxStreamBytes = 64 << 20
)

// Request is one exchange with an echo server.
type Request struct {
	// Target is the echo server as the client sees it.
	Target netip.AddrPort `json:"target"`
	// Bytes to send and to expect back; 64 if zero.
	Bytes int `json:"bytes,omitempty"`
	// Attempts for a UDP exchange, since UDP may lose it; 1 if zero.
	Attempts int `json:"attempts,omitempty"`
	// TimeoutMilliseconds for the exchange (TCP) or for one attempt (UDP); 5000
	// if zero.
	TimeoutMilliseconds int `json:"timeoutMilliseconds,omitempty"`
}

// Result is a successful exchange: the content came back unchanged.
type Result struct {
	// ObservedSource is the client's address as the server saw it.
	ObservedSource netip.AddrPort `json:"observedSource"`
	// Server is the server's own address as it sees it (TCP).
	Server netip.AddrPort `json:"server,omitzero"`
	// LocalAddress is the client's address as the client sees it.
	LocalAddress netip.AddrPort `json:"localAddress"`
	Bytes        int            `json:"bytes"`
	// Attempts that were needed (UDP).
	Attempts int `json:"attempts"`
	// RTTMicroseconds from the last request to its complete answer.
	RTTMicroseconds float64 `json:"rttMicroseconds"`
}

func (r Request) timeout() time.Duration {
	if r.TimeoutMilliseconds <= 0 {
		return 5 * time.Second
	}
	return time.Duration(r.TimeoutMilliseconds) * time.Millisecond
}

// content returns size random bytes.
func content(size int) ([]byte, error) {
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		return nil, fmt.Errorf("make random content: %w", err)
	}
	return data, nil
}

// compare reports the first difference between what was sent and what came
// back.
func compare(sent, back []byte) error {
	if bytes.Equal(sent, back) {
		return nil
	}
	for i := range min(len(sent), len(back)) {
		if sent[i] != back[i] {
			return fmt.Errorf("the echo of %d bytes differs from what was sent at byte %d", len(sent), i)
		}
	}
	return fmt.Errorf("%d bytes came back of %d sent", len(back), len(sent))
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// Greeting is what a server tells over TCP before it echoes.
type Greeting struct {
	Source, Server netip.AddrPort
}

// ReadGreeting reads it.
func ReadGreeting(from *bufio.Reader) (Greeting, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return Greeting{}, err
	}
	source, server, _ := strings.Cut(strings.TrimSpace(line), " ")
	g := Greeting{Source: addrPort(source), Server: addrPort(server)}
	if !g.Source.IsValid() || !g.Server.IsValid() {
		return Greeting{}, fmt.Errorf("%q is no greeting of an echo server", line)
	}
	return g, nil
}

// Greet writes the greeting of a connection's server end.
func Greet(conn net.Conn) error {
	_, err := fmt.Fprintf(conn, "%s %s\n", addrPort(conn.RemoteAddr().String()), addrPort(conn.LocalAddr().String()))
	return err
}

// addrPort converts a socket address, without an IPv4-mapped prefix.
func addrPort(text string) netip.AddrPort {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
