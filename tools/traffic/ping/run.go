package ping

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"
)

// Run sends the pings and measures their answers. It needs CAP_NET_RAW. A run
// with lost answers is no error; one that cannot send is.
func Run(ctx context.Context, req Request) (Result, error) {
	req, err := req.withDefaults()
	if err != nil {
		return Result{}, err
	}
	conn, err := net.ListenPacket("ip4:icmp", "0.0.0.0")
	if err != nil {
		return Result{}, fmt.Errorf("open a raw ICMP socket (needs CAP_NET_RAW): %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	p := pinger{conn: conn, req: req, id: uint16(rand.Uint32()), nonce: rand.Uint64()}
	result := Result{Nonce: p.nonce}
	var rtts []time.Duration
	for sequence := range req.Count {
		rtt, err := p.one(uint16(sequence))
		if ctx.Err() != nil {
			return result, fmt.Errorf("ping %s: %w", req.Target, ctx.Err())
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return result, fmt.Errorf("ping %s: %w", req.Target, err)
		}
		result.Sent++
		if err == nil {
			rtts = append(rtts, rtt)
		}
		pause(ctx, time.Duration(req.IntervalMilliseconds)*time.Millisecond)
	}
	result.summarize(rtts)
	return result, nil
}

type pinger struct {
	conn  net.PacketConn
	req   Request
	id    uint16
	nonce uint64
}

// one sends a request and waits for its answer from the target.
func (p *pinger) one(sequence uint16) (time.Duration, error) {
	out := make([]byte, p.req.Bytes)
	message{kind: typeEchoRequest, id: p.id, sequence: sequence, nonce: p.nonce}.encode(out)
	in := make([]byte, p.req.Bytes+64)
	want := message{kind: typeEchoReply, id: p.id, sequence: sequence, nonce: p.nonce}

	start := time.Now()
	if err := p.conn.SetDeadline(start.Add(time.Duration(p.req.TimeoutMilliseconds) * time.Millisecond)); err != nil {
		return 0, err
	}
	if _, err := p.conn.WriteTo(out, &net.IPAddr{IP: p.req.Target.AsSlice()}); err != nil {
		return 0, err
	}
	for {
		n, from, err := p.conn.ReadFrom(in)
		rtt := time.Since(start)
		if err != nil {
			return 0, err
		}
		if got, ok := decode(in[:n]); ok && got == want && n == len(out) && address(from) == p.req.Target {
			return rtt, nil
		}
	}
}

func address(a net.Addr) netip.Addr {
	ip, ok := a.(*net.IPAddr)
	if !ok {
		return netip.Addr{}
	}
	out, _ := netip.AddrFromSlice(ip.IP)
	return out.Unmap()
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
