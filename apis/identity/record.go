package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Bounds of a record. A record is outside input.
const (
	// maxRecordLength is the longest token that ParseRecord reads, in bytes.
	maxRecordLength = 16384
	// MaxGateways, MaxEndpoints and MaxLanes bound what a record may list.
	MaxGateways  = 16
	MaxEndpoints = 8
	MaxLanes     = 4
)

const (
	tokenPrefix   = "weft1"
	recordVersion = 1
	// signatureContext keeps a record's signature from being taken for the
	// signature of anything else.
	signatureContext = "weft record v1\x00"
)

var (
	clusterIDPattern = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)
	// numberLike ends in a number, as addresses do: some resolvers take 127.1 or
	// 0x7f000001 for one.
	numberLike  = regexp.MustCompile(`(^|\.)(0[xX][0-9a-fA-F]*|[0-9]+)$`)
	hostPattern = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9.]{0,251}[a-zA-Z0-9])?$`)
)

// Record is what a cluster says of itself. Readers ignore fields that they do
// not know.
type Record struct {
	Version   int                `json:"version"`
	ClusterID v1alpha1.ClusterID `json:"clusterID"`
	// PublicKey is the Ed25519 key whose fingerprint is the identity.
	PublicKey []byte `json:"publicKey"`
	// Epoch (Unix time in milliseconds) begins when the controller's state is
	// made anew; Serial counts the records of an epoch. The greater pair is the
	// newer record.
	Epoch    uint64    `json:"epoch"`
	Serial   uint64    `json:"serial"`
	Gateways []Gateway `json:"gateways"`
}

// Gateway is a node of the cluster that terminates tunnels.
type Gateway struct {
	// ID is 1 to 255, unique within the cluster.
	ID int32 `json:"id"`
	// Endpoints are addresses or host names without port; none if the gateway
	// is behind NAT.
	Endpoints []string `json:"endpoints,omitempty"`
	Lanes     []Lane   `json:"lanes"`
}

// Lane is a WireGuard device of a gateway.
type Lane struct {
	Port uint16 `json:"port"`
	// Key is the Curve25519 public key, 32 bytes.
	Key []byte `json:"key"`
}

// Identity of the cluster that the record describes.
func (r *Record) Identity() v1alpha1.Identity { return Fingerprint(r.PublicKey) }

// NewerThan reports whether r replaces old. A nil old is older than any.
func (r *Record) NewerThan(old *Record) bool {
	if old == nil {
		return true
	}
	if r.Epoch != old.Epoch {
		return r.Epoch > old.Epoch
	}
	return r.Serial > old.Serial
}

// Sign validates the record, sets its version and public key, and returns it
// as one line of text that carries its own signature: weft1.<record>.<signature>,
// both parts in base64url without padding.
func (r *Record) Sign(key ed25519.PrivateKey) (string, error) {
	signed := *r
	signed.Version = recordVersion
	signed.PublicKey = key.Public().(ed25519.PublicKey)
	if err := signed.validate(); err != nil {
		return "", err
	}
	payload, err := json.Marshal(&signed)
	if err != nil {
		return "", fmt.Errorf("encode record: %w", err)
	}
	signature := ed25519.Sign(key, append([]byte(signatureContext), payload...))
	enc := base64.RawURLEncoding
	token := tokenPrefix + "." + enc.EncodeToString(payload) + "." + enc.EncodeToString(signature)
	if len(token) > maxRecordLength {
		return "", fmt.Errorf("the record is %d bytes long; at most %d are allowed", len(token), maxRecordLength)
	}
	return token, nil
}

// ParseRecord reads and verifies a token made by Sign. The error is one
// sentence fit for a condition.
func ParseRecord(token string) (*Record, error) {
	token = strings.TrimSpace(token)
	if len(token) > maxRecordLength {
		return nil, fmt.Errorf("the record is %d bytes long; at most %d are allowed", len(token), maxRecordLength)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[0] != tokenPrefix {
		return nil, errors.New("this is not a record: it must be a line of the form weft1.<record>.<signature>, as `weftctl record` prints it")
	}
	enc := base64.RawURLEncoding.Strict()
	payload, err := enc.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("the record is damaged: its first part is not base64url")
	}
	signature, err := enc.DecodeString(parts[2])
	if err != nil {
		return nil, errors.New("the record is damaged: its signature is not base64url")
	}
	var r Record
	if err := json.NewDecoder(bytes.NewReader(payload)).Decode(&r); err != nil {
		return nil, errors.New("the record is damaged: its first part is not JSON")
	}
	if len(r.PublicKey) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("the record's public key is %d bytes long; an Ed25519 key has %d", len(r.PublicKey), ed25519.PublicKeySize)
	}
	if !ed25519.Verify(r.PublicKey, append([]byte(signatureContext), payload...), signature) {
		return nil, errors.New("the record's signature does not match: it was altered on the way or signed by another key")
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	return &r, nil
}

func (r *Record) validate() error {
	if r.Version != recordVersion {
		return fmt.Errorf("the record has version %d; this release reads version %d", r.Version, recordVersion)
	}
	if !clusterIDPattern.MatchString(string(r.ClusterID)) {
		return fmt.Errorf("cluster ID %.60q must be 1 to 40 characters: a lower-case letter, then lower-case letters, digits and hyphens, not ending in a hyphen", r.ClusterID)
	}
	if len(r.Gateways) > MaxGateways {
		return fmt.Errorf("the record lists %d gateways; at most %d are allowed", len(r.Gateways), MaxGateways)
	}
	seen := map[int32]bool{}
	for i := range r.Gateways {
		g := &r.Gateways[i]
		if g.ID < 1 || g.ID > 255 || seen[g.ID] {
			return fmt.Errorf("gateway id %d of the record is not unique or not within 1 to 255", g.ID)
		}
		seen[g.ID] = true
		if err := g.validate(); err != nil {
			return fmt.Errorf("gateway %d of the record: %w", g.ID, err)
		}
	}
	return nil
}

func (g *Gateway) validate() error {
	if len(g.Endpoints) > MaxEndpoints {
		return fmt.Errorf("%d endpoints; at most %d are allowed", len(g.Endpoints), MaxEndpoints)
	}
	for _, e := range g.Endpoints {
		if err := ValidateEndpoint(e); err != nil {
			return err
		}
	}
	if len(g.Lanes) < 1 || len(g.Lanes) > MaxLanes {
		return fmt.Errorf("%d lanes; 1 to %d are allowed", len(g.Lanes), MaxLanes)
	}
	for _, l := range g.Lanes {
		if l.Port == 0 || len(l.Key) != 32 || bytes.Equal(l.Key, make([]byte, 32)) {
			return errors.New("a lane needs a UDP port and a 32-byte WireGuard key")
		}
	}
	return nil
}

// ValidateEndpoint accepts a unicast address or a host name that a tunnel may
// be dialed at. Loopback, link-local (where cloud metadata lives), multicast
// and unspecified addresses are refused: a record comes from outside.
func ValidateEndpoint(endpoint string) error {
	addr, err := netip.ParseAddr(endpoint)
	if err != nil {
		if !hostPattern.MatchString(endpoint) || numberLike.MatchString(endpoint) {
			return fmt.Errorf("endpoint %.80q is neither an address nor a host name", endpoint)
		}
		if host := strings.ToLower(endpoint); host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, 6.3
			return fmt.Errorf("endpoint %s is not a name that a peer can be reached at", endpoint)
		}
		return nil
	}
	if addr.Zone() != "" || addr.IsUnspecified() || addr.IsLoopback() || addr.IsMulticast() || addr.IsLinkLocalUnicast() ||
		addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("endpoint %s is not an address that a peer can be reached at", endpoint)
	}
	return nil
}
