package zone

import (
	"strings"

	"github.com/miekg/dns"
)

// Response is what there is to say to a question, whatever carries it.
type Response struct {
	// Rcode is NOERROR, NXDOMAIN or REFUSED.
	Rcode         int
	Authoritative bool
	// Additional records are a help; a response is complete without them.
	Answer, Authority, Additional []dns.RR
}

// Answer a question. Names outside of the zone, classes other than IN and zone
// transfers are refused. Names are compared without regard to case, and given
// back as they were asked for.
func Answer(index *Index, question dns.Question) Response {
	labels, inside := within(question.Name)
	if !inside || question.Qclass != dns.ClassINET || !answerable(question.Qtype) {
		return Response{Rcode: dns.RcodeRefused}
	}
	found, exists := index.find(labels)
	switch {
	case !exists:
		return negative(dns.RcodeNameError, index.serial)
	case question.Qtype == dns.TypeANY:
		return Response{Authoritative: true, Answer: []dns.RR{minimal(question.Name)}}
	case len(found[question.Qtype]) == 0:
		return negative(dns.RcodeSuccess, index.serial)
	}
	answer := named(question.Name, found[question.Qtype])
	return Response{Authoritative: true, Answer: answer, Additional: index.addressesOf(answer)}
}

// within returns the labels in front of the zone's, in lower case.
func within(name string) (labels []string, inside bool) {
	all, zone := dns.SplitDomainName(dns.CanonicalName(name)), dns.SplitDomainName(Name)
	split := len(all) - len(zone)
	if split < 0 {
		return nil, false
	}
	for i, label := range zone {
		if all[split+i] != label {
			return nil, false
		}
	}
	return all[:split], true
}

// answerable says whether the type asks for records. Transfers, and the rest of
// the types that only questions and transports have, do not (RFC 6895, 3.1).
func answerable(kind uint16) bool {
	meta := kind >= 128 && kind <= 255 || kind == dns.TypeOPT || kind == dns.TypeNone
	return !meta || kind == dns.TypeANY
}

// find returns the records of a name given by its labels in front of the zone's.
// A name exists if it or a name below it has records (RFC 8020).
func (i *Index) find(labels []string) (found records, exists bool) {
	switch n := len(labels); {
	case n == 0:
		return apexRecords(i.serial), true
	case labels[n-1] != serviceLabel:
		return findOther(strings.Join(labels, ".") + "." + Name)
	case n == 1:
		return nil, true
	case n == 2:
		return nil, i.namespaces[labels[0]] > 0
	default:
		service := i.services[Key{Namespace: labels[n-2], Name: labels[n-3]}]
		found, exists = service.names[strings.Join(labels[:n-3], ".")]
		return found, exists
	}
}

// findOther finds what the zone has beside services.
func findOther(name string) (found records, exists bool) {
	switch name {
	case VersionName:
		return versionRecords(), true
	case serverName, "dns." + Name:
		return nil, true
	}
	return nil, false
}

// negative says that the name, or records of the type, do not exist.
func negative(rcode int, serial uint32) Response {
	return Response{Rcode: rcode, Authoritative: true, Authority: []dns.RR{startOfAuthority(serial)}}
}

// minimal answers ANY (RFC 8482, 4.2).
func minimal(name string) dns.RR {
	return &dns.HINFO{Hdr: header(name, dns.TypeHINFO, ttl), Cpu: "RFC8482"}
}

// named copies records, with their owner in the spelling of the question, which
// resolvers that vary the case compare.
func named(name string, rrs []dns.RR) []dns.RR {
	copies := make([]dns.RR, len(rrs))
	for i, rr := range rrs {
		copies[i] = dns.Copy(rr)
		copies[i].Header().Name = name
	}
	return copies
}

// addressesOf returns the addresses of the targets of SRV records, each once.
func (i *Index) addressesOf(answer []dns.RR) []dns.RR {
	var all []dns.RR
	seen := map[string]bool{}
	for _, rr := range answer {
		srv, ok := rr.(*dns.SRV)
		if !ok || seen[srv.Target] {
			continue
		}
		seen[srv.Target] = true
		labels, _ := within(srv.Target)
		found, _ := i.find(labels)
		all = append(append(all, found[dns.TypeA]...), found[dns.TypeAAAA]...)
	}
	return all
}
