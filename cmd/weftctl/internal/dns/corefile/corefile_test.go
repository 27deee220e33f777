package corefile

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var server = netip.MustParseAddr("10.96.1.2")

// kubeadm is what kubeadm writes.
const kubeadm = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

// stubs has stub domains, comments, a snippet and files of others.
const stubs = `# Do not touch: managed by the platform team. { " }
(common) {
    errors
    cache 30
}
import /etc/coredns/custom/*.server

corp.example.com:53 lab.example.com:53 { # two stub domains
    import common
    forward . 192.168.1.1 192.168.1.2
}

.:53 {
    import common
    health :8080
    kubernetes cluster.local {
        pods verified
    }
    hosts /etc/coredns/NodeHosts {
      ttl 60
      fallthrough
    }
    rewrite name regex (.*)\.old\.example\.com "{1}.new.example.com" # quoted
    forward . {$UPSTREAM} 1.1.1.1
    reload 10s
}

example.org.,
example.net {
    file /etc/coredns/db.example
}
`

const written = `# BEGIN weft CHECKSUM
# Written by ` + "`weftctl dns enable`, removed by `weftctl dns disable`" + `.
clusterset.local:53 {
    errors
    cache 5 {
        servfail 1s
        serve_stale 5m verify
    }
    forward . 10.96.1.2
}
# END weft
`

// expected returns a block with the text between its marks replaced, and its
// checksum, as an administrator's shell would compute it, filled in.
func expected(text, sum string) string { return strings.Replace(text, "CHECKSUM", sum, 1) }

// The first 12 digits of sha256sum over the nine lines between the marks.
const blockSum = "4aaa66949c53"

// Realistic Corefiles: the block comes in front, for the port and addresses where
// the cluster's questions come in; nothing else changes.
func TestEnable(t *testing.T) {
	for name, c := range map[string]struct{ text, inBlock string }{
		"kubeadm":       {kubeadm, "clusterset.local:53 {\n    errors\n    cache 5 {\n        servfail 1s\n        serve_stale 5m verify\n    }\n    forward . 10.96.1.2\n}\n"},
		"stub domains":  {stubs, "clusterset.local:53 {\n    errors\n"},
		"default port":  {". {\n kubernetes cluster.local\n forward . 8.8.8.8\n}", "\nclusterset.local {\n"},
		"other port":    {"dns://.:5353 {\n kubernetes cluster.local\n}\ntls://.:853 {\n forward . 8.8.8.8\n}\n", "\nclusterset.local:5353 {\n"},
		"no root zone":  {"cluster.local:1053 {\n kubernetes cluster.local\n}\nexample.com:54 {\n whoami\n}\n", "\nclusterset.local:1053 {\n"},
		"bound":         {".:53 {\n bind 169.254.20.10 10.96.0.10\n kubernetes cluster.local\n}\n", "\nclusterset.local:53 {\n    bind 169.254.20.10 10.96.0.10\n    errors\n"},
		"several ports": {".:53 .:9053 {\n whoami\n}\n", "}\nclusterset.local:9053 {\n"},
		"several roots": {".:53 {\n whoami\n}\n.:9053 {\n whoami\n}\n", "}\nclusterset.local:9053 {\n"},
		"one line":      {".:53 {\n forward . 1.1.1.1 { max_fails 0 }\n kubernetes cluster.local }\n", "\nclusterset.local:53 {\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(c.text)
			require.NoError(t, err)
			require.Equal(t, Absent, f.State())
			require.False(t, f.Forwards(server))
			got, err := f.Enable(server, false)
			require.NoError(t, err)
			require.Contains(t, got, c.inBlock)
			require.True(t, strings.HasSuffix(got, endMark+"\n"+c.text))
			requireRoundTrip(t, c.text, got)
		})
	}
}

// requireRoundTrip: enabled again, nothing changes; disabled, all is as before.
func requireRoundTrip(t *testing.T, before, enabled string) {
	t.Helper()
	f, err := Parse(enabled)
	require.NoError(t, err)
	require.Equal(t, Present, f.State())
	require.True(t, f.Forwards(server))
	again, err := f.Enable(server, false)
	require.NoError(t, err)
	require.Equal(t, enabled, again)
	after, err := f.Disable(false)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// The block, byte for byte.
func TestBlock(t *testing.T) {
	f, err := Parse(kubeadm)
	require.NoError(t, err)
	got, err := f.Enable(server, false)
	require.NoError(t, err)
	require.Equal(t, expected(written, blockSum)+kubeadm, got)
}

// A file with the line ends of Windows keeps them, and gets them in the block.
func TestWindowsLineEnds(t *testing.T) {
	text := strings.ReplaceAll(kubeadm, "\n", "\r\n")
	f, err := Parse(text)
	require.NoError(t, err)
	got, err := f.Enable(server, false)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(expected(written, blockSum)+kubeadm, "\n", "\r\n"), got)
	requireRoundTrip(t, text, got)

	// An editor that changes the line ends has not changed the block.
	f, err = Parse(strings.ReplaceAll(got, "\r\n", "\n"))
	require.NoError(t, err)
	require.Equal(t, Present, f.State())
}

// weft-dns has another address: the block is replaced where it stands.
func TestNewServer(t *testing.T) {
	text := kubeadm + expected(written, blockSum) + "example.org {\n    whoami\n}\n"
	f, err := Parse(text)
	require.NoError(t, err)
	require.Equal(t, Present, f.State())
	other := netip.MustParseAddr("fd00::2")
	require.False(t, f.Forwards(other))
	got, err := f.Enable(other, false)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(got, kubeadm+beginMark))
	require.Contains(t, got, "    forward . fd00::2\n}\n# END weft\nexample.org {\n")
	require.Equal(t, 1, strings.Count(got, beginMark))
}

// A block that somebody has changed is neither overwritten nor removed, unless
// that is asked for.
func TestEdited(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"a plugin":       func(s string) string { return strings.Replace(s, "    errors\n", "    errors\n    log\n", 1) },
		"another block":  func(s string) string { return strings.Replace(s, endMark, "a.example {\n whoami\n}\n"+endMark, 1) },
		"no checksum":    func(s string) string { return strings.Replace(s, beginMark+" "+blockSum, beginMark, 1) },
		"a broken block": func(s string) string { return strings.Replace(s, "}\n"+endMark, endMark, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(edit(expected(written, blockSum)) + stubs)
			require.NoError(t, err)
			require.Equal(t, Edited, f.State())
			require.False(t, f.Forwards(server))
			var edited *EditedError
			_, err = f.Enable(server, false)
			require.ErrorAs(t, err, &edited)
			require.ErrorContains(t, err, "line 1 of the Corefile")
			_, err = f.Disable(false)
			require.ErrorAs(t, err, &edited)

			got, err := f.Enable(server, true)
			require.NoError(t, err)
			require.Equal(t, expected(written, blockSum)+stubs, got)
			got, err = f.Disable(true)
			require.NoError(t, err)
			require.Equal(t, stubs, got)
		})
	}
}

// Somebody else's configuration of the zone is left alone, and named.
func TestConflict(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a server block":   {kubeadm + "ClusterSet.Local.:53 {\n    forward . 10.1.1.1\n}\n", "line 24 of the Corefile (ClusterSet.Local.:53)"},
		"among other keys": {"example.com,\nclusterset.local {\n forward . 10.1.1.1\n}\n" + kubeadm, "line 1"},
		"the multicluster plugin": {
			".:53 {\n  errors\n  multicluster clusterset.local\n  kubernetes cluster.local\n}\n",
			"line 3 of the Corefile (multicluster clusterset.local)",
		},
		"a forward": {".:53 {\n forward clusterset.local 10.1.1.1 {\n  prefer_udp\n }\n}\n", "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(c.text)
			require.NoError(t, err)
			_, err = f.Enable(server, false)
			var conflict *ConflictError
			require.ErrorAs(t, err, &conflict)
			require.ErrorContains(t, err, c.want)
			got, err := f.Disable(false)
			require.NoError(t, err)
			require.Equal(t, c.text, got)
		})
	}
}

// A file that is broken, or to which nothing can be added, is an error with its
// line and what to do.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "no server block"},
		"comments alone":    {"# nothing\n", "no server block"},
		"without braces":    {".:53\nerrors\nforward . 1.1.1.1\n", "line 1 of the Corefile: a server block without braces"},
		"brace not closed":  {"\n.:53 {\n errors\n health {\n }\n", "line 2"},
		"brace too many":    {".:53 {\n errors\n}\n}\n", "line 4"},
		"quote not closed":  {".:53 {\n errors\n rewrite \"x\n}\n", "line 3"},
		"nameless plugin":   {".:53 {\n {\n }\n}\n", "line 2"},
		"nobody's zone":     {"example.com {\n whoami\n}\n", "no server block serves the root zone"},
		"bind with braces":  {".:53 {\n bind eth0 {\n  except 10.0.0.1\n }\n}\n", "line 2"},
		"block without end": {beginMark + " x\nclusterset.local {\n}\n" + kubeadm, "line 1"},
		"end alone":         {kubeadm + endMark + "\n", "line 24"},
		"two blocks":        {expected(written, blockSum) + expected(written, blockSum) + kubeadm, "line 12"},
		"inside another":    {".:53 {\n" + expected(written, blockSum) + " kubernetes cluster.local\n}\n", "inside another one"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(c.text)
			if err == nil {
				_, err = f.Enable(server, false)
			}
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestReloads(t *testing.T) {
	for text, want := range map[string]bool{kubeadm: true, stubs: true, strings.Replace(kubeadm, "reload", "", 1): false} {
		f, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, f.Reloads())
	}
}

// FuzzRoundTrip: no text makes it panic, and what is enabled can be disabled
// again, byte for byte.
func FuzzRoundTrip(f *testing.F) {
	for _, text := range []string{kubeadm, stubs, expected(written, blockSum) + kubeadm, ". {\n}", "{", "}", ", {\n}\n", ".:53 { }", ".:53 {\n} # x", "import", "\"", ". {\r\n}\r\n", beginMark + "\n" + endMark} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := Parse(text)
		if err != nil || read.State() != Absent {
			return
		}
		enabled, err := read.Enable(server, false)
		if err != nil {
			return
		}
		requireRoundTrip(t, text, enabled)
	})
}
