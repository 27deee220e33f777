// Package pki makes a cluster's certificates and keys. What exists is kept, so
// that starting a lab again does not change its clusters' authorities.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Authority is a cluster's certificate authority, kept in a folder.
type Authority struct {
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// Request describes a certificate: for a client by user and groups, for a
// server by names and addresses.
type Request struct {
	User      string
	Groups    []string
	Names     []string
	Addresses []netip.Addr
}

const validity = 365 * 24 * time.Hour

// Open returns the authority of the folder, made if missing: ca.crt and ca.key.
func Open(folder string) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make certificate folder: %w", err)
	}
	a := &Authority{folder: folder}
	if cert, key, err := a.load("ca"); err == nil {
		a.cert, a.key = cert, key
		return a, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "weft-lab"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := a.write("ca", template, template, key, key)
	if err != nil {
		return nil, err
	}
	a.cert, a.key = cert, key
	return a, nil
}

// Path is a file of the authority, such as ca.crt.
func (a *Authority) Path(file string) string { return filepath.Join(a.folder, file) }

// Ensure makes <name>.crt and <name>.key unless both exist and are ours.
func (a *Authority) Ensure(name string, r Request) error {
	if cert, _, err := a.load(name); err == nil && cert.CheckSignatureFrom(a.cert) == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: r.User, Organization: r.Groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    r.Names,
	}
	for _, address := range r.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	_, err = a.write(name, template, a.cert, key, a.key)
	return err
}

// EnsureKeyPair makes <name>.pub and <name>.key, for signing service account tokens.
func (a *Authority) EnsureKeyPair(name string) error {
	if _, err := os.Stat(a.Path(name + ".pub")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", name, err)
	}
	if err := a.writeKey(name, key); err != nil {
		return err
	}
	return WriteFile(a.Path(name+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644)
}

func (a *Authority) write(name string, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make serial of certificate %s: %w", name, err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	// The key first: a certificate on disk means that both are there.
	if err := a.writeKey(name, key); err != nil {
		return nil, err
	}
	if err := WriteFile(a.Path(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (a *Authority) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", name, err)
	}
	return WriteFile(a.Path(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func (a *Authority) load(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPEM, err := os.ReadFile(a.Path(name + ".crt"))
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := os.ReadFile(a.Path(name + ".key"))
	if err != nil {
		return nil, nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, fmt.Errorf("certificate %s is damaged", name)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	return cert, key, err
}

// WriteFile writes a file whole or not at all.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		return nil
	}
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(temporary, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
