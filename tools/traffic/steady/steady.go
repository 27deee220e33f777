// Package steady keeps bytes moving over one TCP connection for as long as it
// is told to, and checks every one of them: the client sends a reproducible
// sequence to an echo server and compares what comes back, so a byte that is
// lost, repeated or out of place in either direction is found where it is. A
// connection that ends before it is told to is reported, never opened again.
package steady

import (
	"fmt"
	"net/netip"
	"time"
)

const (
	// tick between two writes.
	tick = 5 * time.Millisecond
	// defaultRate in bytes a second: enough that something is always on its way,
	// and little enough to leave the machine to the rest.
	defaultRate = 100_000
	maxRate     = 100_000_000
	maxDuration = time.Hour
	// dialTimeout bounds the opening of the connection.
	dialTimeout = 10 * time.Second
	// drain is how long the last bytes may take: after an outage, TCP backs off for
	// as long as that was.
	drain = 30 * time.Second
)

// Request is a connection to hold.
type Request struct {
	// ID tells it from others of the same client.
	ID uint32 `json:"id"`
	// Target is an echo server.
	Target netip.AddrPort `json:"target"`
	// BytesPerSecond to send; 100000 if zero.
	BytesPerSecond int `json:"bytesPerSecond,omitempty"`
	// DurationMilliseconds after which it ends by itself.
	DurationMilliseconds int `json:"durationMilliseconds"`
}

// Report is what became of a connection.
type Report struct {
	ID uint32 `json:"id"`
	// Local and ObservedSource are this end as it and as the server see it.
	Local          netip.AddrPort `json:"local"`
	ObservedSource netip.AddrPort `json:"observedSource"`
	// Sent bytes, and Verified ones: they came back as and where they should.
	Sent     int64 `json:"sent"`
	Verified int64 `json:"verified"`
	// Broken: it was reset, or ended, or timed out before it was told to end.
	Broken bool `json:"broken"`
	// Corrupt: a byte came back that was not the next one.
	Corrupt bool `json:"corrupt"`
	// Error says what Broken or Corrupt mean; empty where all is well.
	Error string `json:"error,omitempty"`
	// LongestSilenceMicroseconds between two arrivals, and when it ended.
	LongestSilenceMicroseconds int64     `json:"longestSilenceMicroseconds"`
	LongestSilenceEnd          time.Time `json:"longestSilenceEnd,omitzero"`
	Start                      time.Time `json:"start"`
	End                        time.Time `json:"end,omitzero"`
	// Done is true after the last byte.
	Done bool `json:"done"`
}

// OK says whether every byte came back, and none is still under way.
func (r Report) OK() bool {
	return r.Done && !r.Broken && !r.Corrupt && r.Verified > 0 && r.Verified == r.Sent
}

func (r Request) validate() (Request, error) {
	if r.BytesPerSecond == 0 {
		r.BytesPerSecond = defaultRate
	}
	if r.BytesPerSecond < 0 || r.BytesPerSecond > maxRate {
		return r, fmt.Errorf("%d bytes a second are not a rate; ask for 1 to %d", r.BytesPerSecond, maxRate)
	}
	if r.DurationMilliseconds <= 0 || time.Duration(r.DurationMilliseconds)*time.Millisecond > maxDuration {
		return r, fmt.Errorf("%d ms are no duration of a connection; ask for 1 to %d", r.DurationMilliseconds, maxDuration.Milliseconds())
	}
	return r, nil
}
