package agentapi

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keyFile holds the 32-byte seed of the server's Ed25519 key. It is the node's
// own and no cluster's identity.
const keyFile = "agent-tls.key"

// loadKey reads the key from the state folder, or makes it there. It survives
// restarts so that the controller's pin does.
func loadKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, keyFile)
	seed, err := os.ReadFile(path)
	switch {
	case err == nil && len(seed) == ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(seed), nil
	case err == nil || errors.Is(err, fs.ErrNotExist):
		// A file of another length is what a crash left; it never was in use.
		return makeKey(dir, path)
	}
	return nil, fmt.Errorf("read the agent's TLS key: %w", err)
}

func makeKey(dir, path string) (ed25519.PrivateKey, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the agent's state folder: %w", err)
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails (crypto/rand)
	temporary := path + ".new"
	if err := os.WriteFile(temporary, seed, 0o600); err != nil {
		return nil, fmt.Errorf("write the agent's TLS key: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return nil, fmt.Errorf("write the agent's TLS key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
