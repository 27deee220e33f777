// Package identity says who a cluster is: an Ed25519 key, whose fingerprint is
// the cluster's identity, and the signed record in which the cluster describes
// itself to others.
package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

var base32Lower = base32.StdEncoding.WithPadding(base32.NoPadding)

// Fingerprint returns the identity that belongs to a public key: its SHA-256
// in lower-case base32 (RFC 4648) without padding, 52 characters.
func Fingerprint(key ed25519.PublicKey) v1alpha1.Identity {
	sum := sha256.Sum256(key)
	return v1alpha1.Identity(strings.ToLower(base32Lower.EncodeToString(sum[:])))
}

// ChannelAddress returns the address at which a gateway's end of the peer
// channel listens inside the tunnel: fd79::/16 followed by the first 112 bits
// of SHA-256(identity, 0x00, gateway id as a big-endian uint32). Both ends
// compute it, so nothing has to be negotiated before the tunnel is up.
func ChannelAddress(id v1alpha1.Identity, gatewayID int32) netip.Addr {
	h := sha256.New()
	h.Write([]byte(id))
	h.Write([]byte{0})
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(gatewayID)))
	sum := h.Sum(nil)
	var addr [16]byte
	addr[0], addr[1] = 0xfd, 0x79
	copy(addr[2:], sum)
	return netip.AddrFrom16(addr)
}
