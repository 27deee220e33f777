// Package ping measures round-trip times with ICMP echo (RFC 792) and, at the
// far end, remembers which source address each ping was seen from.
package ping

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

const (
	typeEchoReply   = 0
	typeEchoRequest = 8

	icmpHeaderBytes = 8
	magic           = 0x57656674 // "Weft"
	// headerBytes of every request: ICMP, magic, nonce.
	headerBytes = icmpHeaderBytes + 4 + 8
	maxBytes    = 65000
	maxCount    = 100_000
)

// Request is a run of pings, one after the other.
type Request struct {
	Target netip.Addr `json:"target"`
	// Count of echo requests; 1 if zero.
	Count int `json:"count,omitempty"`
	// IntervalMilliseconds between an answer and the next request.
	IntervalMilliseconds int `json:"intervalMilliseconds,omitempty"`
	// TimeoutMilliseconds for one answer; 1000 if zero.
	TimeoutMilliseconds int `json:"timeoutMilliseconds,omitempty"`
	// Bytes of ICMP header and data; 64 if zero.
	Bytes int `json:"bytes,omitempty"`
}

// Result of a run.
type Result struct {
	// Nonce names the run: Watcher.Seen finds it at the far end.
	Nonce    uint64 `json:"nonce"`
	Sent     int    `json:"sent"`
	Received int    `json:"received"`
	// Round-trip times in microseconds, over the received answers.
	MedianMicroseconds  float64 `json:"medianMicroseconds"`
	MinimumMicroseconds float64 `json:"minimumMicroseconds"`
	MaximumMicroseconds float64 `json:"maximumMicroseconds"`
	P99Microseconds     float64 `json:"p99Microseconds"`
}

func (r Request) withDefaults() (Request, error) {
	if r.Count == 0 {
		r.Count = 1
	}
	if r.TimeoutMilliseconds <= 0 {
		r.TimeoutMilliseconds = 1000
	}
	if r.Bytes == 0 {
		r.Bytes = 64
	}
	if r.Count < 0 || r.Count > maxCount || r.Bytes < headerBytes || r.Bytes > maxBytes {
		return r, fmt.Errorf("cannot send %d pings of %d bytes; ask for 1 to %d of %d to %d bytes", r.Count, r.Bytes, maxCount, headerBytes, maxBytes)
	}
	if !r.Target.Is4() {
		return r, fmt.Errorf("cannot ping %s: not an IPv4 address", r.Target)
	}
	return r, nil
}

// message is an ICMP echo request or reply of ours.
type message struct {
	kind     byte
	id       uint16
	sequence uint16
	nonce    uint64
}

// encode fills b, of at least headerBytes, checksum included.
func (m message) encode(b []byte) {
	clear(b)
	b[0] = m.kind
	binary.BigEndian.PutUint16(b[4:], m.id)
	binary.BigEndian.PutUint16(b[6:], m.sequence)
	binary.BigEndian.PutUint32(b[8:], magic)
	binary.BigEndian.PutUint64(b[12:], m.nonce)
	binary.BigEndian.PutUint16(b[2:], ^onesSum(b))
}

// decode reads an ICMP message; ok is false unless it is an undamaged one of
// ours.
func decode(b []byte) (m message, ok bool) {
	if len(b) < headerBytes || binary.BigEndian.Uint32(b[8:]) != magic || onesSum(b) != 0xffff {
		return message{}, false
	}
	return message{
		kind:     b[0],
		id:       binary.BigEndian.Uint16(b[4:]),
		sequence: binary.BigEndian.Uint16(b[6:]),
		nonce:    binary.BigEndian.Uint64(b[12:]),
	}, true
}

// onesSum is the ones' complement sum of b (RFC 1071).
func onesSum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// summarize fills in the statistics over rtts.
func (r *Result) summarize(rtts []time.Duration) {
	r.Received = len(rtts)
	if len(rtts) == 0 {
		return
	}
	slices.Sort(rtts)
	n := len(rtts)
	r.MedianMicroseconds = (microseconds(rtts[(n-1)/2]) + microseconds(rtts[n/2])) / 2
	r.MinimumMicroseconds = microseconds(rtts[0])
	r.MaximumMicroseconds = microseconds(rtts[n-1])
	r.P99Microseconds = microseconds(rtts[(n*99-1)/100])
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
