package zone

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// shop is what the tests ask about: a service with two named ports and one
// without a name, one of both families, one that has no address yet.
func shop() *Index {
	return Empty(7).Change([]Service{
		{
			Key: Key{"shop", "web"}, Addresses: []netip.Addr{netip.MustParseAddr("10.96.7.7")},
			Ports: []Port{{"http", "TCP", 80}, {"dns", "UDP", 53}, {"", "TCP", 9000}},
		},
		{
			Key: Key{"shop", "both"}, Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("10.96.7.8")},
			Ports: []Port{{"https", "TCP", 443}},
		},
		{Key: Key{"shop", "pending"}, Ports: []Port{{"http", "TCP", 80}}},
		{Key: Key{"test", "myservice"}, Addresses: []netip.Addr{netip.MustParseAddr("10.42.42.42")}, Ports: []Port{{"https", "TCP", 443}}},
	}, nil)
}

const soa = "clusterset.local. 5 IN SOA ns.dns.clusterset.local. hostmaster.clusterset.local. 8 7200 1800 86400 5"

// Every form of name of the KEP's specification, and what is next to it: the
// records are written as in a zone file.
func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		asked      string
		kind       uint16
		answer     []string
		additional []string
	}{
		"address":             {"web.shop.svc.clusterset.local.", dns.TypeA, []string{"web.shop.svc.clusterset.local. 5 IN A 10.96.7.7"}, nil},
		"example of the KEP":  {"myservice.test.svc.clusterset.local.", dns.TypeA, []string{"myservice.test.svc.clusterset.local. 5 IN A 10.42.42.42"}, nil},
		"any case":            {"WeB.sHop.SVC.clusterSET.local.", dns.TypeA, []string{"WeB.sHop.SVC.clusterSET.local. 5 IN A 10.96.7.7"}, nil},
		"both families, IPv4": {"both.shop.svc.clusterset.local.", dns.TypeA, []string{"both.shop.svc.clusterset.local. 5 IN A 10.96.7.8"}, nil},
		"both families, IPv6": {"both.shop.svc.clusterset.local.", dns.TypeAAAA, []string{"both.shop.svc.clusterset.local. 5 IN AAAA 2001:db8::1"}, nil},
		"port": {
			"_http._tcp.web.shop.svc.clusterset.local.", dns.TypeSRV,
			[]string{"_http._tcp.web.shop.svc.clusterset.local. 5 IN SRV 0 100 80 web.shop.svc.clusterset.local."},
			[]string{"web.shop.svc.clusterset.local. 5 IN A 10.96.7.7"},
		},
		"port of another protocol, any case": {
			"_DNS._Udp.web.shop.svc.clusterset.local.", dns.TypeSRV,
			[]string{"_DNS._Udp.web.shop.svc.clusterset.local. 5 IN SRV 0 100 53 web.shop.svc.clusterset.local."},
			[]string{"web.shop.svc.clusterset.local. 5 IN A 10.96.7.7"},
		},
		"port of both families": {
			"_https._tcp.both.shop.svc.clusterset.local.", dns.TypeSRV,
			[]string{"_https._tcp.both.shop.svc.clusterset.local. 5 IN SRV 0 100 443 both.shop.svc.clusterset.local."},
			[]string{"both.shop.svc.clusterset.local. 5 IN A 10.96.7.8", "both.shop.svc.clusterset.local. 5 IN AAAA 2001:db8::1"},
		},
		"schema version": {"dns-version.clusterset.local.", dns.TypeTXT, []string{`dns-version.clusterset.local. 28800 IN TXT "1.0.0"`}, nil},
		"start":          {"clusterset.local.", dns.TypeSOA, []string{soa}, nil},
		"name server":    {"clusterset.local.", dns.TypeNS, []string{"clusterset.local. 5 IN NS ns.dns.clusterset.local."}, nil},
		"everything":     {"web.shop.svc.clusterset.local.", dns.TypeANY, []string{`web.shop.svc.clusterset.local. 5 IN HINFO "RFC8482" ""`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Answer(shop(), dns.Question{Name: c.asked, Qtype: c.kind, Qclass: dns.ClassINET})
			require.Equal(t, dns.RcodeSuccess, got.Rcode)
			require.True(t, got.Authoritative)
			require.Equal(t, parsed(t, c.answer), texts(got.Answer))
			require.Equal(t, parsed(t, c.additional), texts(got.Additional))
			require.Empty(t, got.Authority)
		})
	}
}

// What does not exist has the zone's SOA, by which resolvers know how long to
// remember that.
func TestNegativeAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		asked string
		kind  uint16
		rcode int
	}{
		"no IPv6 address":         {"web.shop.svc.clusterset.local.", dns.TypeAAAA, dns.RcodeSuccess},
		"no address yet":          {"pending.shop.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"SRV of no port":          {"web.shop.svc.clusterset.local.", dns.TypeSRV, dns.RcodeSuccess},
		"address of a port":       {"_http._tcp.web.shop.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"name above ports":        {"_tcp.web.shop.svc.clusterset.local.", dns.TypeSRV, dns.RcodeSuccess},
		"a namespace":             {"shop.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"name above namespaces":   {"svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"the zone":                {"clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"the name server":         {"ns.dns.clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"name above name server":  {"dns.clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"version is a text":       {"dns-version.clusterset.local.", dns.TypeA, dns.RcodeSuccess},
		"key of an unsigned zone": {"clusterset.local.", dns.TypeDNSKEY, dns.RcodeSuccess},

		"no service":              {"none.shop.svc.clusterset.local.", dns.TypeA, dns.RcodeNameError},
		"no namespace":            {"web.none.svc.clusterset.local.", dns.TypeA, dns.RcodeNameError},
		"empty namespace":         {"none.svc.clusterset.local.", dns.TypeA, dns.RcodeNameError},
		"everything of nothing":   {"none.shop.svc.clusterset.local.", dns.TypeANY, dns.RcodeNameError},
		"no such port":            {"_ftp._tcp.web.shop.svc.clusterset.local.", dns.TypeSRV, dns.RcodeNameError},
		"port of other protocol":  {"_http._udp.web.shop.svc.clusterset.local.", dns.TypeSRV, dns.RcodeNameError},
		"protocol without ports":  {"_sctp.web.shop.svc.clusterset.local.", dns.TypeSRV, dns.RcodeNameError},
		"port without name":       {"_._tcp.web.shop.svc.clusterset.local.", dns.TypeSRV, dns.RcodeNameError},
		"one cluster (2.3.4)":     {"milan.web.shop.svc.clusterset.local.", dns.TypeA, dns.RcodeNameError},
		"a wildcard":              {"*.shop.svc.clusterset.local.", dns.TypeA, dns.RcodeNameError},
		"beside services":         {"pod.clusterset.local.", dns.TypeA, dns.RcodeNameError},
		"an escaped dot":          {`web\.shop.svc.clusterset.local.`, dns.TypeA, dns.RcodeNameError},
		"below the version":       {"x.dns-version.clusterset.local.", dns.TypeTXT, dns.RcodeNameError},
		"search list of a client": {"web.shop.svc.clusterset.local.svc.clusterset.local.", dns.TypeA, dns.RcodeNameError},
	} {
		t.Run(name, func(t *testing.T) {
			got := Answer(shop(), dns.Question{Name: c.asked, Qtype: c.kind, Qclass: dns.ClassINET})
			require.Equal(t, dns.RcodeToString[c.rcode], dns.RcodeToString[got.Rcode])
			require.True(t, got.Authoritative)
			require.Equal(t, parsed(t, []string{soa}), texts(got.Authority))
			require.Empty(t, got.Answer)
			require.Empty(t, got.Additional)
		})
	}
}

// What is not this zone's to say is refused, without a word more.
func TestRefused(t *testing.T) {
	for name, q := range map[string]dns.Question{
		"other zone":         {Name: "kubernetes.default.svc.cluster.local.", Qtype: dns.TypeA, Qclass: dns.ClassINET},
		"root":               {Name: ".", Qtype: dns.TypeNS, Qclass: dns.ClassINET},
		"above the zone":     {Name: "local.", Qtype: dns.TypeSOA, Qclass: dns.ClassINET},
		"ends alike":         {Name: "myclusterset.local.", Qtype: dns.TypeA, Qclass: dns.ClassINET},
		"escaped dot":        {Name: `x.clusterset\.local.`, Qtype: dns.TypeA, Qclass: dns.ClassINET},
		"other class":        {Name: "web.shop.svc.clusterset.local.", Qtype: dns.TypeA, Qclass: dns.ClassCHAOS},
		"any class":          {Name: "web.shop.svc.clusterset.local.", Qtype: dns.TypeA, Qclass: dns.ClassANY},
		"transfer":           {Name: "clusterset.local.", Qtype: dns.TypeAXFR, Qclass: dns.ClassINET},
		"incremental":        {Name: "clusterset.local.", Qtype: dns.TypeIXFR, Qclass: dns.ClassINET},
		"option as question": {Name: "clusterset.local.", Qtype: dns.TypeOPT, Qclass: dns.ClassINET},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, Response{Rcode: dns.RcodeRefused}, Answer(shop(), q))
		})
	}
}

// parsed reads records from zone file text, so that both sides of a comparison
// are printed alike.
func parsed(t *testing.T, lines []string) []string {
	t.Helper()
	var rrs []dns.RR
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		require.NoError(t, err)
		rrs = append(rrs, rr)
	}
	return texts(rrs)
}

func texts(rrs []dns.RR) []string {
	var all []string
	for _, rr := range rrs {
		all = append(all, rr.String())
	}
	return all
}
