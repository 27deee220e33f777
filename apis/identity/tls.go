package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Certificate returns a self-signed TLS certificate for the key. Nobody checks
// its names or dates: peers pin the key's fingerprint (PinnedConfig).
func Certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	id := Fingerprint(key.Public().(ed25519.PublicKey))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: string(id)},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280, 4.1.2.5: no expiry
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// PinnedConfig returns a TLS 1.3 configuration for either end of a connection
// that presents cert and accepts the far end only if allowed says so of the
// fingerprint of its Ed25519 key. allowed must be safe for concurrent use.
func PinnedConfig(cert tls.Certificate, allowed func(v1alpha1.Identity) error) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert,
		// The usual verification asks for a certificate authority. Ours is the
		// pin, in VerifyConnection, which runs on both ends and on resumption.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			id, err := PeerIdentity(state)
			if err != nil {
				return err
			}
			return allowed(id)
		},
	}
}

// PeerIdentity returns the identity that the far end of a connection has
// proved to hold the key of.
func PeerIdentity(state tls.ConnectionState) (v1alpha1.Identity, error) {
	if len(state.PeerCertificates) != 1 {
		return "", errors.New("the far end must present exactly one certificate")
	}
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return "", errors.New("the far end's certificate has no Ed25519 key")
	}
	return Fingerprint(key), nil
}
