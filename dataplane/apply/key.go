package apply

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

const keySuffix = ".key"

// laneKey returns the lane's private key, made on this node at first use. It
// lives in <state folder>/<device>.key and nowhere else.
func laneKey(stateDir, device string) (wgtypes.Key, error) {
	path := filepath.Join(stateDir, device+keySuffix)
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeKey(stateDir, path)
	}
	if err != nil {
		return wgtypes.Key{}, fmt.Errorf("read private key of %s: %w", device, err)
	}
	// The error of ParseKey may quote its input.
	key, err := wgtypes.ParseKey(strings.TrimSpace(string(content)))
	if err != nil {
		return wgtypes.Key{}, fmt.Errorf("%s does not hold a WireGuard private key: delete it, and the node gets a new one", path)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return wgtypes.Key{}, fmt.Errorf("protect private key of %s: %w", device, err)
	}
	return key, nil
}

func makeKey(stateDir, path string) (wgtypes.Key, error) {
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return key, fmt.Errorf("make private key: %w", err)
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return key, fmt.Errorf("make state folder: %w", err)
	}
	if err := writeFile(path, []byte(key.String()+"\n")); err != nil {
		return key, fmt.Errorf("keep private key: %w", err)
	}
	return key, nil
}

// writeFile replaces the file at once or not at all, also over a power loss:
// nobody can read a half-written one.
func writeFile(path string, content []byte) error {
	suffix := make([]byte, 8)
	if _, err := rand.Read(suffix); err != nil {
		return err
	}
	temporary := path + "." + hex.EncodeToString(suffix) + ".tmp"
	defer os.Remove(temporary) // gone already if all went well
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// RemoveState deletes the contents of the state folder: private keys, endpoints
// and whatever the agent keeps there. Only after the zero plan was applied.
func (e *Executor) RemoveState() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endpoints.forget()
	entries, err := os.ReadDir(e.options.StateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("empty state folder: %w", err)
	}
	var failures []error
	for _, entry := range entries {
		failures = append(failures, os.RemoveAll(filepath.Join(e.options.StateDir, entry.Name())))
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("empty state folder: %w", err)
	}
	return nil
}
