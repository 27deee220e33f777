package zone

import (
	"net/netip"

	"github.com/miekg/dns"
)

// records of one name by type. A name without any still exists.
type records map[uint16][]dns.RR

// Weight and priority in SRV records (RFC 2782). The KEP leaves them open; there
// is one target, so they choose nothing.
const (
	srvPriority = 0
	srvWeight   = 100
)

// namesOf returns the records of a service by relative name: its addresses, and
// an SRV record for each port (KEP-1645 specification, 2.3.1 and 2.3.2). It has
// no PTR record, since the derived Service has one in the cluster's own zone
// (2.3.3), and no name of a single cluster (2.3.4).
func namesOf(s Service) map[string]records {
	target := fullName(s.Key)
	names := map[string]records{"": addressRecords(target, s.Addresses)}
	for _, port := range s.Ports {
		protocol := "_" + port.Protocol
		if names[protocol] == nil {
			names[protocol] = records{}
		}
		name := "_" + port.Name + "." + protocol
		if names[name] == nil {
			names[name] = records{}
		}
		names[name][dns.TypeSRV] = append(names[name][dns.TypeSRV], &dns.SRV{
			Hdr: header(name+"."+target, dns.TypeSRV, ttl), Priority: srvPriority, Weight: srvWeight, Port: port.Number, Target: target,
		})
	}
	return names
}

func addressRecords(name string, addresses []netip.Addr) records {
	all := records{}
	for _, address := range addresses {
		if address.Is4() {
			all[dns.TypeA] = append(all[dns.TypeA], &dns.A{Hdr: header(name, dns.TypeA, ttl), A: address.AsSlice()})
		} else {
			all[dns.TypeAAAA] = append(all[dns.TypeAAAA], &dns.AAAA{Hdr: header(name, dns.TypeAAAA, ttl), AAAA: address.AsSlice()})
		}
	}
	return all
}

func fullName(key Key) string {
	return key.Name + "." + key.Namespace + "." + serviceLabel + "." + Name
}

// apexRecords are those of the zone itself.
func apexRecords(serial uint32) records {
	return records{
		dns.TypeSOA: {startOfAuthority(serial)},
		dns.TypeNS:  {&dns.NS{Hdr: header(Name, dns.TypeNS, ttl), Ns: serverName}},
	}
}

// startOfAuthority also goes with every negative answer, and says by its last
// number how long that one holds (RFC 2308). Nobody transfers the zone, so the
// other times are customary ones.
func startOfAuthority(serial uint32) dns.RR {
	return &dns.SOA{
		Hdr: header(Name, dns.TypeSOA, ttl), Ns: serverName, Mbox: "hostmaster." + Name,
		Serial: serial, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

func versionRecords() records {
	return records{dns.TypeTXT: {&dns.TXT{Hdr: header(VersionName, dns.TypeTXT, versionTTL), Txt: []string{Version}}}}
}

func header(name string, kind uint16, seconds uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: seconds}
}
