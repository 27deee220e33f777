package server

import (
	"github.com/miekg/dns"

	"github.com/weft-fabric/weft/dns/zone"
)

// handler turns requests into replies.
type handler struct {
	index   func() *zone.Index
	slots   chan struct{}
	metrics *metrics
}

func (h *handler) over(transport zone.Transport) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, request *dns.Msg) { h.serve(w, request, transport) })
}

func (h *handler) serve(w dns.ResponseWriter, request *dns.Msg, transport zone.Transport) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.drop(w, transport, overload)
		return
	}
	reply := zone.Reply(h.index(), request, transport)
	if reply == nil {
		h.drop(w, transport, malformed)
		return
	}
	if err := w.WriteMsg(reply); err != nil {
		h.drop(w, transport, unsent)
		return
	}
	h.metrics.answered(transport, reply.Rcode, reply.Truncated)
}

// drop gives up on the request, and on the connection that brought it.
func (h *handler) drop(w dns.ResponseWriter, transport zone.Transport, reason dropReason) {
	h.metrics.dropped(transport, reason)
	if transport == zone.TCP {
		_ = w.Close() // nobody waits for it
	}
}
