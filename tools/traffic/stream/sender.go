package stream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

const (
	tick = time.Millisecond
	// maxBurstTicks bounds how many ticks' worth of packets a late sender sends
	// at once, so that catching up overruns no queue on the way.
	maxBurstTicks = 8
	maxRate       = 100_000
)

// SendRequest is a flow to send.
type SendRequest struct {
	Flow             uint32         `json:"flow"`
	Target           netip.AddrPort `json:"target"`
	PacketsPerSecond int            `json:"packetsPerSecond"`
	// Bytes of UDP payload a packet; 200 if zero.
	Bytes int `json:"bytes,omitempty"`
	// DurationMilliseconds after which the flow ends by itself.
	DurationMilliseconds int `json:"durationMilliseconds"`
}

// Sent is what a sender did.
type Sent struct {
	Flow uint32 `json:"flow"`
	// Sent packets: numbers 0 to Sent-1 were used, those with an error included.
	Sent uint64 `json:"sent"`
	// Errors of the local stack; such a packet counts as sent, hence as lost.
	Errors    uint64 `json:"errors"`
	LastError string `json:"lastError,omitempty"`
	// LatestMicroseconds is the most that the sender fell behind its schedule.
	LatestMicroseconds int64     `json:"latestMicroseconds"`
	Start              time.Time `json:"start"`
	End                time.Time `json:"end,omitzero"`
	// Done is true after the last packet.
	Done bool `json:"done"`
}

func (r SendRequest) validate() error {
	if r.PacketsPerSecond <= 0 || r.PacketsPerSecond > maxRate {
		return fmt.Errorf("%d packets a second are not a rate; ask for 1 to %d", r.PacketsPerSecond, maxRate)
	}
	if r.Bytes != 0 && (r.Bytes < HeaderBytes || r.Bytes > 65507) {
		return fmt.Errorf("packets of %d bytes cannot be numbered; ask for %d to 65507", r.Bytes, HeaderBytes)
	}
	if r.DurationMilliseconds <= 0 {
		return fmt.Errorf("a flow needs a duration")
	}
	if int64(r.DurationMilliseconds)*int64(r.PacketsPerSecond)/1000 > MaxNumber {
		return fmt.Errorf("%d ms at %d packets a second are more than %d packets", r.DurationMilliseconds, r.PacketsPerSecond, MaxNumber)
	}
	return nil
}

// Send sends the flow until its duration or ctx ends, and calls progress now
// and then. Deadlines are absolute, so that a late tick shifts no later one.
func Send(ctx context.Context, req SendRequest, progress func(Sent)) (Sent, error) {
	if err := req.validate(); err != nil {
		return Sent{}, err
	}
	// Not connected: an ICMP error must not fail a later packet's send.
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return Sent{}, fmt.Errorf("open a socket for flow %d: %w", req.Flow, err)
	}
	defer conn.Close()
	s := sender{conn: conn, req: req, packet: make([]byte, max(req.Bytes, HeaderBytes)), sent: Sent{Flow: req.Flow, Start: time.Now()}}
	if req.Bytes == 0 {
		s.packet = make([]byte, 200)
	}
	s.run(ctx, progress)
	s.sent.End, s.sent.Done = time.Now(), true
	progress(s.sent)
	return s.sent, nil
}

type sender struct {
	conn   *net.UDPConn
	req    SendRequest
	packet []byte
	sent   Sent
}

func (s *sender) run(ctx context.Context, progress func(Sent)) {
	total := uint64(s.req.PacketsPerSecond) * uint64(s.req.DurationMilliseconds) / 1000
	burst := uint64(max(1, s.req.PacketsPerSecond*maxBurstTicks/1000))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ticks := 1; s.sent.Sent < total; ticks++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		elapsed := time.Since(s.sent.Start)
		due := min(total, 1+uint64(elapsed.Seconds()*float64(s.req.PacketsPerSecond)))
		s.lateness(due, elapsed)
		for n := min(due, s.sent.Sent+burst); s.sent.Sent < n; {
			s.one()
		}
		if ticks%100 == 0 {
			progress(s.sent)
		}
		next := s.sent.Start.Add(elapsed.Truncate(tick) + tick)
		timer.Reset(time.Until(next))
	}
}

// lateness records how long ago the next packet was due.
func (s *sender) lateness(due uint64, elapsed time.Duration) {
	if due <= s.sent.Sent {
		return
	}
	scheduled := time.Duration(s.sent.Sent) * time.Second / time.Duration(s.req.PacketsPerSecond)
	s.sent.LatestMicroseconds = max(s.sent.LatestMicroseconds, (elapsed - scheduled).Microseconds())
}

func (s *sender) one() {
	encode(s.packet, s.req.Flow, s.sent.Sent)
	s.sent.Sent++
	if _, err := s.conn.WriteToUDPAddrPort(s.packet, s.req.Target); err != nil {
		s.sent.Errors++
		s.sent.LastError = err.Error()
	}
}
