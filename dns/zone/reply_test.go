package zone

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// A question in, bytes out: both are made and read by golang.org/x/net's
// dnsmessage, which shares nothing with the server's library.
func TestReplyOnTheWire(t *testing.T) {
	name := dnsmessage.MustNewName("_http._tcp.web.shop.svc.clusterset.local.")
	target := dnsmessage.MustNewName("web.shop.svc.clusterset.local.")
	question := dnsmessage.Question{Name: name, Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET}
	request := dnsmessage.Message{Header: dnsmessage.Header{ID: 4711, RecursionDesired: true}, Questions: []dnsmessage.Question{question}}

	got := onTheWire(t, shop(), request, UDP)
	require.Equal(t, dnsmessage.Header{ID: 4711, Response: true, Authoritative: true, RecursionDesired: true}, got.Header)
	require.Equal(t, request.Questions, got.Questions)
	require.Equal(t, []dnsmessage.ResourceBody{&dnsmessage.SRVResource{Priority: 0, Weight: 100, Port: 80, Target: target}}, bodies(got.Answers))
	require.Equal(t, []dnsmessage.ResourceBody{&dnsmessage.AResource{A: [4]byte{10, 96, 7, 7}}}, bodies(got.Additionals))
	require.EqualValues(t, 5, got.Answers[0].Header.TTL)
	require.Equal(t, name, got.Answers[0].Header.Name)
	require.Empty(t, got.Authorities)
}

// What is no ordinary query gets the word that its RFC has for that.
func TestOddRequests(t *testing.T) {
	web := dns.Question{Name: "web.shop.svc.clusterset.local.", Qtype: dns.TypeA, Qclass: dns.ClassINET}
	option := func(version uint8) *dns.OPT {
		opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		opt.SetUDPSize(4096)
		opt.SetVersion(version)
		return opt
	}
	for name, c := range map[string]struct {
		index   *Index
		request dns.Msg
		rcode   int
	}{
		"status":          {shop(), dns.Msg{MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeStatus}, Question: []dns.Question{web}}, dns.RcodeNotImplemented},
		"update":          {shop(), dns.Msg{MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeUpdate}, Question: []dns.Question{web}}, dns.RcodeNotImplemented},
		"no question":     {shop(), dns.Msg{}, dns.RcodeFormatError},
		"two questions":   {shop(), dns.Msg{Question: []dns.Question{web, web}}, dns.RcodeFormatError},
		"two options":     {shop(), dns.Msg{Question: []dns.Question{web}, Extra: []dns.RR{option(0), option(0)}}, dns.RcodeFormatError},
		"EDNS to come":    {shop(), dns.Msg{Question: []dns.Question{web}, Extra: []dns.RR{option(1)}}, dns.RcodeBadVers},
		"nothing known":   {nil, dns.Msg{Question: []dns.Question{web}}, dns.RcodeServerFailure},
		"nothing there":   {Empty(0), dns.Msg{Question: []dns.Question{web}}, dns.RcodeNameError},
		"ordinary option": {shop(), dns.Msg{Question: []dns.Question{web}, Extra: []dns.RR{option(0)}}, dns.RcodeSuccess},
	} {
		t.Run(name, func(t *testing.T) {
			reply := Reply(c.index, &c.request, UDP)
			require.Equal(t, dns.RcodeToString[c.rcode], dns.RcodeToString[reply.Rcode])
			require.Equal(t, len(c.request.Extra) > 0, reply.IsEdns0() != nil, "an option answers an option (RFC 6891, 6.1.1)")
			wire, err := reply.Pack()
			require.NoError(t, err)
			require.NoError(t, new(dns.Msg).Unpack(wire))
		})
	}
	require.Nil(t, Reply(shop(), &dns.Msg{MsgHdr: dns.MsgHdr{Response: true}, Question: []dns.Question{web}}, UDP), "a response would start a loop")
}

// A service with n addresses gets a reply in the size asked for, whole or with
// TC; over TCP it is whole.
func TestRepliesFit(t *testing.T) {
	for _, n := range []int{1, 20, 28, 29, 30, 70, 75, 80, 500} {
		index := Empty(0).Change([]Service{many(n)}, nil)
		for _, asked := range []int{0, 1, 511, 512, 600, 1000, 1232, 1233, 4096, 65535} {
			request := new(dns.Msg).SetQuestion("many.shop.svc.clusterset.local.", dns.TypeA)
			limit := 512
			if asked > 0 {
				request.SetEdns0(uint16(asked), false)
				limit = min(max(asked, 512), 1232)
			}
			reply := Reply(index, request, UDP)
			wire, err := reply.Pack()
			require.NoError(t, err)
			require.LessOrEqual(t, len(wire), limit)
			require.Equal(t, len(reply.Answer) < n, reply.Truncated, "%d addresses, %d bytes", n, asked)

			reply = Reply(index, request, TCP)
			require.Len(t, reply.Answer, n)
			require.False(t, reply.Truncated)
		}
	}
}

// Additional records that do not fit are left away, and their absence is no
// truncation (RFC 2181, 9).
func TestAdditionalRecordsAreDispensable(t *testing.T) {
	index := Empty(0).Change([]Service{many(40)}, nil)
	request := new(dns.Msg).SetQuestion("_http._tcp.many.shop.svc.clusterset.local.", dns.TypeSRV).SetEdns0(512, false)
	reply := Reply(index, request, UDP)
	require.Len(t, reply.Answer, 1)
	require.False(t, reply.Truncated)
	require.Len(t, reply.Extra, 1, "the option alone")
	require.Len(t, Reply(index, request, TCP).Extra, 41)
}

func many(n int) Service {
	service := Service{Key: Key{"shop", "many"}, Ports: []Port{{"http", "TCP", 80}}}
	address := netip.MustParseAddr("10.1.0.0")
	for range n {
		address = address.Next()
		service.Addresses = append(service.Addresses, address)
	}
	return service
}

// FuzzAnswer: whatever is asked, there is an answer, and it is the same in any
// case of letters.
func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"", ".", "..", `\`, `\0`, `\000.clusterset.local`, `a\.clusterset.local.`, "clusterset.local", ".clusterset.local.", "svc..clusterset.local.", "web.shop.svc.clusterset.local.", "_http._tcp.web.shop.svc.clusterset.local.", "ſ.clusterset.local.", strings.Repeat("a.", 200) + "clusterset.local."} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypeANY, dns.TypeAXFR, 0, 65535} {
			f.Add(name, kind, uint16(dns.ClassINET))
		}
	}
	index := shop()
	f.Fuzz(func(t *testing.T, name string, kind, class uint16) {
		got := Answer(index, dns.Question{Name: name, Qtype: kind, Qclass: class})
		require.Contains(t, []int{dns.RcodeSuccess, dns.RcodeNameError, dns.RcodeRefused}, got.Rcode)
		require.Equal(t, got.Rcode != dns.RcodeRefused, got.Authoritative)
		if got.Rcode == dns.RcodeSuccess {
			require.Equal(t, 1, min(len(got.Answer), 1)+len(got.Authority))
		}
		upper := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				r -= 'a' - 'A'
			}
			return r
		}, name)
		require.Equal(t, got.Rcode, Answer(index, dns.Question{Name: upper, Qtype: kind, Qclass: class}).Rcode)
	})
}

// FuzzReply: whatever can be read as a request gets a reply that fits.
func FuzzReply(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(randomRequest(rand.New(rand.NewPCG(seed, 1))))
	}
	index := shop().Change([]Service{many(100)}, nil)
	f.Fuzz(func(t *testing.T, wire []byte) { checkFit(t, index, wire) })
}

// The same on random requests, so that every run tries many.
func TestRandomRequestsFit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	index := shop().Change([]Service{many(100)}, nil)
	for range 20000 {
		checkFit(t, index, randomRequest(random))
	}
}

func checkFit(t *testing.T, index *Index, wire []byte) {
	request := new(dns.Msg)
	if request.Unpack(wire) != nil {
		return
	}
	limits := map[Transport]int{UDP: 512, TCP: 65535}
	if option := request.IsEdns0(); option != nil {
		limits[UDP] = min(max(512, int(option.UDPSize())), 1232)
	}
	for transport, limit := range limits {
		reply := Reply(index, request, transport)
		if request.Response {
			require.Nil(t, reply)
			continue
		}
		packed, err := reply.Pack()
		require.NoError(t, err, "%v", request)
		require.LessOrEqual(t, len(packed), limit, "%v", request)
		whole := Reply(index, request, TCP)
		require.Equal(t, len(reply.Answer) < len(whole.Answer) || len(reply.Ns) < len(whole.Ns), reply.Truncated)
	}
}

// randomRequest makes a request of words that the zone knows and of junk.
func randomRequest(random *rand.Rand) []byte {
	words := []string{"_http", "_tcp", "many", "web", "both", "shop", "svc", "clusterset", "local", "*", "x\x00\xff", strings.Repeat("y", 63), "MANY"}
	var name []byte
	for range random.IntN(5) {
		word := words[random.IntN(len(words))]
		name = append(append(name, byte(len(word))), word...)
	}
	if random.IntN(4) > 0 {
		for _, word := range words[5:9] {
			name = append(append(name, byte(len(word))), word...)
		}
	}
	kinds := []uint16{1, 28, 33, 255, 6, 2, 16, 252, uint16(random.Uint32())}
	kind := kinds[random.IntN(len(kinds))]
	wire := []byte{0, 9, byte(random.IntN(2)) << 3 & byte(random.IntN(256)), 0, 0, 1, 0, 0, 0, 0, 0, 0}
	wire = append(append(wire, name...), 0, byte(kind>>8), byte(kind), 0, 1)
	if random.IntN(2) == 0 {
		wire[11] = 1
		size := uint16(random.IntN(3000))
		wire = append(wire, 0, 0, 41, byte(size>>8), byte(size), 0, byte(random.IntN(8)/7), byte(random.IntN(2))<<7, 0, 0, 0)
	}
	return wire
}

func onTheWire(t *testing.T, index *Index, request dnsmessage.Message, transport Transport) dnsmessage.Message {
	t.Helper()
	wire, err := request.Pack()
	require.NoError(t, err)
	read := new(dns.Msg)
	require.NoError(t, read.Unpack(wire))
	wire, err = Reply(index, read, transport).Pack()
	require.NoError(t, err)
	var got dnsmessage.Message
	require.NoError(t, got.Unpack(wire), fmt.Sprintf("%x", wire))
	return got
}

func bodies(resources []dnsmessage.Resource) []dnsmessage.ResourceBody {
	var all []dnsmessage.ResourceBody
	for _, resource := range resources {
		all = append(all, resource.Body)
	}
	return all
}
