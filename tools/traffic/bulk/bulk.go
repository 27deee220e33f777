// Package bulk moves many bytes over one TCP connection in either direction.
//
// The client opens with one line of JSON (header). The bytes follow in the
// direction that it asked for, in frames of a 32-bit big-endian length and so
// many bytes; length 0 ends them. Then the server writes one line of JSON
// (summary) about its own end. Verified content is made from a seed by ChaCha8
// and hashed with SHA-256 at both ends; unverified content is one buffer sent
// again and again, for measuring throughput.
package bulk

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// Direction of the bytes as the client sees it.
type Direction string

const (
	Upload   Direction = "upload"
	Download Direction = "download"
)

const (
	maxBytes   = 16 << 30
	chunkBytes = 256 << 10
)

// Request is one transfer.
type Request struct {
	Target    netip.AddrPort `json:"target"`
	Direction Direction      `json:"direction"`
	// Bytes to move; with DurationMilliseconds set, at most so many.
	Bytes int64 `json:"bytes"`
	// DurationMilliseconds ends the sending early, for throughput.
	DurationMilliseconds int `json:"durationMilliseconds,omitempty"`
	// Verify makes the content from Seed and compares SHA-256 of both ends.
	Verify bool   `json:"verify,omitempty"`
	Seed   uint64 `json:"seed,omitempty"`
	// TimeoutMilliseconds for the whole transfer; 120000 if zero.
	TimeoutMilliseconds int `json:"timeoutMilliseconds,omitempty"`
}

// Result is a complete transfer; with Verify, the hashes are equal.
type Result struct {
	Bytes int64 `json:"bytes"`
	// Seconds and MegabitsPerSecond (10^6) as the receiving end saw it, from the
	// first byte to the last.
	Seconds           float64 `json:"seconds"`
	MegabitsPerSecond float64 `json:"megabitsPerSecond"`
	// SHA256 of the content, in hexadecimal, equal at both ends.
	SHA256 string `json:"sha256,omitempty"`
}

// header is what the client asks of the server.
type header struct {
	Direction            Direction `json:"direction"`
	Bytes                int64     `json:"bytes"`
	DurationMilliseconds int       `json:"durationMilliseconds,omitempty"`
	Verify               bool      `json:"verify,omitempty"`
	Seed                 uint64    `json:"seed,omitempty"`
}

// summary is what one end moved.
type summary struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	SHA256  string  `json:"sha256,omitempty"`
}

func (h header) validate() error {
	if h.Direction != Upload && h.Direction != Download {
		return fmt.Errorf("direction %q is neither %q nor %q", h.Direction, Upload, Download)
	}
	if h.Bytes <= 0 || h.Bytes > maxBytes {
		return fmt.Errorf("%d bytes are not a transfer; ask for 1 to %d", h.Bytes, int64(maxBytes))
	}
	return nil
}

func (r Request) header() header {
	return header{Direction: r.Direction, Bytes: r.Bytes, DurationMilliseconds: r.DurationMilliseconds, Verify: r.Verify, Seed: r.Seed}
}

func (r Request) timeout() time.Duration {
	if r.TimeoutMilliseconds <= 0 {
		return 2 * time.Minute
	}
	return time.Duration(r.TimeoutMilliseconds) * time.Millisecond
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

func result(s summary) Result {
	out := Result{Bytes: s.Bytes, Seconds: s.Seconds, SHA256: s.SHA256}
	if s.Seconds > 0 {
		out.MegabitsPerSecond = float64(s.Bytes) * 8 / 1e6 / s.Seconds
	}
	return out
}
