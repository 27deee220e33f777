package zone

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// An index that others still read does not change; what is as it was makes no
// new one, so the zone's serial tells changes.
func TestChangeLeavesTheOldIndex(t *testing.T) {
	before := shop()
	require.EqualValues(t, 8, before.serial)
	after := before.Change([]Service{{Key: Key{"shop", "new"}}}, []Key{{"shop", "web"}})
	require.Equal(t, 4, before.Len())
	require.Equal(t, dns.RcodeSuccess, ask(before, "web.shop.svc.clusterset.local."))
	require.Equal(t, dns.RcodeNameError, ask(before, "new.shop.svc.clusterset.local."))
	require.Equal(t, dns.RcodeNameError, ask(after, "web.shop.svc.clusterset.local."))
	require.Equal(t, dns.RcodeSuccess, ask(after, "new.shop.svc.clusterset.local."))
	require.EqualValues(t, 9, after.serial)

	require.Same(t, after, after.Change(nil, []Key{{"shop", "web"}}), "gone already")
	same := Service{
		Key:       Key{"shop", "both"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.96.7.8"), netip.MustParseAddr("::ffff:10.96.7.8"), netip.MustParseAddr("2001:db8::1")},
		Ports:     []Port{{"https", "tcp", 443}, {"https", "TCP", 443}},
	}
	require.Same(t, after, after.Change([]Service{same}, nil), "the same in another form")
}

// What cannot stand in a record is left out, and does not harm the rest.
func TestUnusableParts(t *testing.T) {
	long := "a234567890123456789012345678901234567890123456789012345678901234"
	index := Empty(0).Change([]Service{
		{Key: Key{"shop", "with.dot"}},
		{Key: Key{"shop", long}},
		{Key: Key{"", "web"}},
		{
			Key:       Key{"shop", "web"},
			Addresses: []netip.Addr{{}, netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("10.0.0.1")},
			Ports:     []Port{{"a.b", "TCP", 1}, {"zero", "TCP", 0}, {long[:63], "TCP", 2}, {"none", "", 3}, {long[:62], "TCP", 4}},
		},
	}, nil)
	require.Equal(t, 1, index.Len())
	require.Len(t, index.services[Key{"shop", "web"}].service.Addresses, 1)
	require.Equal(t, []Port{{long[:62], "tcp", 4}}, index.services[Key{"shop", "web"}].service.Ports)
}

// After any run of changes, an index knows what one made at once of the same
// services knows.
func TestChangesAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		index, model := Empty(0), map[Key]Service{}
		for range 60 {
			key := Key{fmt.Sprint("ns", random.IntN(3)), fmt.Sprint("svc", random.IntN(4))}
			if random.IntN(2) == 0 {
				delete(model, key)
				index = index.Change(nil, []Key{key})
				continue
			}
			model[key] = Service{Key: key, Ports: []Port{{"p", "TCP", uint16(1 + random.IntN(3))}}}
			index = index.Change([]Service{model[key]}, nil)
		}
		var all []Service
		for _, service := range model {
			all = append(all, service)
		}
		whole := Empty(0).Change(all, nil)
		require.Equal(t, whole.services, index.services)
		require.Equal(t, whole.namespaces, index.namespaces)
	}
}

func ask(index *Index, name string) int {
	return Answer(index, dns.Question{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}).Rcode
}
