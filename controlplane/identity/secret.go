// Package identity keeps the cluster's key in its Secret and makes the record
// that the cluster signs with it.
package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Keys of the identity Secret.
const (
	seedKey  = "ed25519.seed"
	epochKey = "epoch"
)

// maxVNI is the largest VXLAN network identifier (RFC 7348, 5: 24 bits).
const maxVNI = 1<<24 - 1

// Self is who this cluster is.
type Self struct {
	Key ed25519.PrivateKey
	ID  v1alpha1.Identity
	// Epoch in Unix milliseconds: when the key was made.
	Epoch uint64
}

// Secrets reads and makes the two Secrets of the controller. Reader must be
// uncached: a cache would need the right to list Secrets.
type Secrets struct {
	Reader    client.Reader
	Writer    client.Writer
	Namespace string
	Now       func() time.Time
}

// Identity returns the cluster's key and makes it if there is none. Of two
// controllers that start at once, the first to create the Secret wins.
func (s Secrets) Identity(ctx context.Context) (Self, error) {
	data, err := s.ensure(ctx, v1alpha1.IdentitySecretName, func() (map[string][]byte, error) {
		seed := make([]byte, ed25519.SeedSize)
		if _, err := rand.Read(seed); err != nil {
			return nil, err
		}
		epoch := strconv.FormatInt(s.Now().UnixMilli(), 10)
		return map[string][]byte{seedKey: seed, epochKey: []byte(epoch)}, nil
	})
	if err != nil {
		return Self{}, err
	}
	return parseIdentity(data)
}

func parseIdentity(data map[string][]byte) (Self, error) {
	seed := data[seedKey]
	if len(seed) != ed25519.SeedSize {
		return Self{}, fmt.Errorf("the Secret %s holds %d bytes under %s instead of %d: restore it from a backup, or delete it to give the cluster a new identity (every peer must then be peered anew)",
			v1alpha1.IdentitySecretName, len(seed), seedKey, ed25519.SeedSize)
	}
	epoch, err := strconv.ParseUint(string(data[epochKey]), 10, 64)
	if err != nil {
		return Self{}, fmt.Errorf("the Secret %s holds no decimal number under %s: restore it from a backup", v1alpha1.IdentitySecretName, epochKey)
	}
	key := ed25519.NewKeyFromSeed(seed)
	return Self{Key: key, ID: apiidentity.Fingerprint(key.Public().(ed25519.PublicKey)), Epoch: epoch}, nil
}

// EnsureOverlay makes the Secret with the overlay's network identifier, which
// keeps strangers on the underlay from guessing their way into the overlay.
func (s Secrets) EnsureOverlay(ctx context.Context) error {
	_, err := s.ensure(ctx, v1alpha1.OverlaySecretName, func() (map[string][]byte, error) {
		vni, err := randomVNI()
		if err != nil {
			return nil, err
		}
		return map[string][]byte{v1alpha1.OverlaySecretKey: []byte(strconv.FormatUint(uint64(vni), 10))}, nil
	})
	return err
}

func randomVNI() (uint32, error) {
	var bytes [4]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(bytes[:])%maxVNI + 1, nil
}

// ensure returns a Secret's data and creates the Secret if it is missing.
func (s Secrets) ensure(ctx context.Context, name string, generate func() (map[string][]byte, error)) (map[string][]byte, error) {
	for range 2 {
		var secret corev1.Secret
		err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, &secret)
		if err == nil {
			return secret.Data, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read Secret %s/%s: %w", s.Namespace, name, err)
		}
		data, err := generate()
		if err != nil {
			return nil, fmt.Errorf("make the content of Secret %s: %w", name, err)
		}
		immutable := true
		secret = corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Immutable:  &immutable,
			Data:       data,
		}
		if err := s.Writer.Create(ctx, &secret); err == nil {
			return data, nil
		} else if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create Secret %s/%s: %w", s.Namespace, name, err)
		}
	}
	return nil, fmt.Errorf("the Secret %s/%s appears and vanishes: is something else managing it?", s.Namespace, name)
}
