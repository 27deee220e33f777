package zone

import (
	"github.com/miekg/dns"
)

// LargestUDP is the size in bytes up to which replies go over UDP. Larger ones
// might be fragmented on the way (DNS flag day 2020).
const LargestUDP = 1232

// Transport that a request came by.
type Transport string

// The transports of DNS.
const (
	UDP Transport = "udp"
	TCP Transport = "tcp"
)

// Reply answers a request in the size that its sender and the transport take; a
// reply that had to be cut has the TC bit. Without an index (nil) it is SERVFAIL:
// what exists is not known yet. A response is never replied to: nil.
func Reply(index *Index, request *dns.Msg, transport Transport) *dns.Msg {
	if request.Response {
		return nil
	}
	reply := new(dns.Msg).SetReply(request)
	reply.Compress = true
	option, options := edns(request)
	if option != nil {
		reply.SetEdns0(LargestUDP, option.Do())
	}
	switch {
	case request.Opcode != dns.OpcodeQuery:
		reply.Rcode = dns.RcodeNotImplemented
	case len(request.Question) != 1 || options > 1:
		reply.Rcode = dns.RcodeFormatError
	case option != nil && option.Version() != 0:
		reply.Rcode = dns.RcodeBadVers
	case index == nil:
		reply.Rcode = dns.RcodeServerFailure
	default:
		fill(reply, Answer(index, request.Question[0]))
	}
	fit(reply, size(option, transport))
	return reply
}

func fill(reply *dns.Msg, response Response) {
	reply.Rcode, reply.Authoritative = response.Rcode, response.Authoritative
	reply.Answer, reply.Ns = response.Answer, response.Authority
	// The option stays the last record: fit counts on it.
	reply.Extra = append(append([]dns.RR{}, response.Additional...), reply.Extra...)
}

// edns returns the request's option record, and how many there are.
func edns(request *dns.Msg) (first *dns.OPT, count int) {
	for _, rr := range request.Extra {
		if option, ok := rr.(*dns.OPT); ok {
			if first == nil {
				first = option
			}
			count++
		}
	}
	return first, count
}

// size returns how many bytes the reply may have.
func size(option *dns.OPT, transport Transport) int {
	switch {
	case transport == TCP:
		return dns.MaxMsgSize
	case option == nil:
		return dns.MinMsgSize
	default:
		return min(max(int(option.UDPSize()), dns.MinMsgSize), LargestUDP)
	}
}

// fit cuts the reply to limit bytes. Additional records go first, and going
// without them is no truncation (RFC 2181, 9).
func fit(reply *dns.Msg, limit int) {
	if reply.Len() <= limit {
		return
	}
	if option := reply.IsEdns0(); option != nil {
		reply.Extra = []dns.RR{option}
	} else {
		reply.Extra = nil
	}
	reply.Truncate(limit)
	reply.Compress = true
}
