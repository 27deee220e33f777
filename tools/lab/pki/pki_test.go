package pki

import (
	"crypto/x509"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCertificatesVerifyAndAreKept(t *testing.T) {
	folder := t.TempDir()
	a, err := Open(folder)
	require.NoError(t, err)
	request := Request{User: "kube-apiserver", Groups: []string{"g"}, Names: []string{"kubernetes"}, Addresses: []netip.Addr{netip.MustParseAddr("172.31.1.11")}}
	require.NoError(t, a.Ensure("server", request))
	require.NoError(t, a.EnsureKeyPair("service-account"))

	cert, _, err := a.load("server")
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for _, name := range []string{"kubernetes", "172.31.1.11"} {
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"g"}, cert.Subject.Organization)

	before, err := os.ReadFile(a.Path("server.crt"))
	require.NoError(t, err)
	again, err := Open(folder)
	require.NoError(t, err)
	require.NoError(t, again.Ensure("server", request))
	after, err := os.ReadFile(a.Path("server.crt"))
	require.NoError(t, err)
	require.Equal(t, before, after)
	info, err := os.Stat(a.Path("server.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestCertificateOfAnotherAuthorityIsReplaced(t *testing.T) {
	folder := t.TempDir()
	a, err := Open(folder)
	require.NoError(t, err)
	require.NoError(t, a.Ensure("client", Request{User: "u"}))
	require.NoError(t, os.Remove(a.Path("ca.key")))
	b, err := Open(folder)
	require.NoError(t, err)
	require.NoError(t, b.Ensure("client", Request{User: "u"}))
	cert, _, err := b.load("client")
	require.NoError(t, err)
	require.NoError(t, cert.CheckSignatureFrom(b.cert))
}
