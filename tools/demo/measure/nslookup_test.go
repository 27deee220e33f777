package measure

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseNslookup(t *testing.T) {
	const server = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n"
	const asked = "10.96.0.10:53"
	one, two := netip.MustParseAddr("10.96.231.233"), netip.MustParseAddr("fd00::9")
	for name, c := range map[string]struct {
		out  string
		want Nslookup
	}{
		"an address, no AAAA":    {server + "\nName:\techo.demo\nAddress: 10.96.231.233\n\n", Nslookup{Server: asked, Addresses: []netip.Addr{one}}},
		"no AAAA, printed first": {server + "\n\nName:\techo.demo\nAddress: 10.96.231.233\n", Nslookup{Server: asked, Addresses: []netip.Addr{one}}},
		"both, in order": {
			server + "Name:\techo.demo\nAddress: fd00::9\n\nName:\techo.demo\nAddress: 10.96.231.233\n\n",
			Nslookup{Server: asked, Addresses: []netip.Addr{one, two}},
		},
		"from a cache": {server + "Non-authoritative answer:\nName:\techo.demo\nAddress: 10.96.231.233\n\n", Nslookup{Server: asked, Addresses: []netip.Addr{one}}},
		"no records":   {server + "\n\n", Nslookup{Server: asked}},
		"no such name": {
			server + "** server can't find echo.demo: NXDOMAIN\n\n** server can't find echo.demo: NXDOMAIN\n\n",
			Nslookup{Server: asked, Refusal: "NXDOMAIN"},
		},
		"one question refused": {
			server + "Name:\techo.demo\nAddress: 10.96.231.233\n\n** server can't find echo.demo: SERVFAIL\n\n",
			Nslookup{Server: asked, Addresses: []netip.Addr{one}, Refusal: "SERVFAIL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseNslookup(c.out)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	for name, out := range map[string]string{
		"no server answered": ";; connection timed out; no servers could be reached\n\n",
		"one not answered":   server + "*** Can't find echo.demo: No answer\n\nName:\techo.demo\nAddress: 10.96.231.233\n",
		"not an address":     server + "Name:\techo.demo\nAddress: echo\n",
		"nothing":            "",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseNslookup(out)
			require.ErrorContains(t, err, "nslookup")
		})
	}
}

func TestNslookupJudged(t *testing.T) {
	right, other := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.2")
	require.True(t, Nslookup{Addresses: []netip.Addr{right}}.Resolved(right))
	for _, wrong := range []Nslookup{
		{}, {Addresses: []netip.Addr{other}}, {Addresses: []netip.Addr{right, other}}, {Refusal: "NXDOMAIN"},
		{Addresses: []netip.Addr{right}, Refusal: "NXDOMAIN"},
	} {
		require.False(t, wrong.Resolved(right), wrong)
	}
	require.True(t, Nslookup{Refusal: "NXDOMAIN"}.Unknown())
	for _, wrong := range []Nslookup{{}, {Refusal: "SERVFAIL"}, {Addresses: []netip.Addr{right}, Refusal: "NXDOMAIN"}} {
		require.False(t, wrong.Unknown(), wrong)
	}
}
