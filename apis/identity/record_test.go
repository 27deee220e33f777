package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidateEndpoint(t *testing.T) {
	for _, good := range []string{"203.0.113.9", "10.0.0.1", "2001:db8::1", "gw.example.org", "gw-1", "1gw.example.org"} {
		require.NoError(t, ValidateEndpoint(good), good)
	}
	for _, bad := range []string{
		"", "127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost", "LocalHost", "a.localhost", "0.0.0.0", "::",
		"169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "255.255.255.255",
		"127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "010.0.0.1", "1.2.3.4:51847", "[::1]", "gw example", "-gw", "gw.", "gw/x", strings.Repeat("a", 254),
	} {
		require.Error(t, ValidateEndpoint(bad), bad)
	}
}

// Whatever changes in a record's text, it is not taken.
func TestForgedRecord(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	record := Record{ClusterID: "a", Epoch: 5, Serial: 7, Gateways: []Gateway{{ID: 1, Endpoints: []string{"203.0.113.9"}, Lanes: []Lane{{Port: 51847, Key: bytes.Repeat([]byte{3}, 32)}}}}}
	token, err := record.Sign(key)
	require.NoError(t, err)
	got, err := ParseRecord("  " + token + "\n")
	require.NoError(t, err)
	require.Equal(t, Fingerprint(key.Public().(ed25519.PublicKey)), got.Identity())
	for i := range token {
		changed := []byte(token)
		changed[i] ^= 1
		_, err := ParseRecord(string(changed))
		require.Error(t, err, "byte %d", i)
	}
	// The payload of one with the signature of another.
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	forged := ed25519.Sign(other, append([]byte(signatureContext), payload...))
	_, err = ParseRecord(parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(forged))
	require.ErrorContains(t, err, "signature does not match")
}
