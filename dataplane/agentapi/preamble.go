package agentapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// A channel through a hub begins with a preamble: 8 bytes that no TLS ClientHello
// begins with, and the 16 bytes of the channel address that it is for. All that
// follows is between the ends.
const (
	preambleMagic  = "WEFTSPL1"
	preambleLength = len(preambleMagic) + 16
	// tlsHandshake is the first byte of a TLS connection: the type of the record
	// that holds the ClientHello (RFC 8446, 5.1).
	tlsHandshake = 0x16
	// preambleTimeout is how long a neighbor may take to say what it wants.
	preambleTimeout = 5 * time.Second
)

// channelAddresses hold all channel addresses (see identity.ChannelAddress).
var channelAddresses = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x79}), 16)

func preamble(target netip.Addr) []byte {
	address := target.As16()
	return append([]byte(preambleMagic), address[:]...)
}

// opening is what a channel begins with. Target is invalid if it is for our own
// controller. Head has been read and belongs to the channel.
type opening struct {
	target netip.Addr
	head   []byte
}

// readOpening reads no further than it must to tell a preamble from TLS, and
// with a preamble one byte beyond: a second preamble, or anything else that is
// not TLS, is refused, since a channel passes one hub at most.
func readOpening(conn io.Reader) (opening, error) {
	read := make([]byte, 0, preambleLength+1)
	for len(read) <= preambleLength {
		n, err := conn.Read(read[len(read):cap(read)])
		read = read[:len(read)+n]
		if same := min(len(read), len(preambleMagic)); string(read[:same]) != preambleMagic[:same] {
			return opening{head: read}, nil
		}
		if err != nil {
			return opening{}, err
		}
	}
	if read[preambleLength] != tlsHandshake {
		return opening{}, errors.New("what follows the preamble is not TLS")
	}
	target := netip.AddrFrom16([16]byte(read[len(preambleMagic):preambleLength]))
	if !channelAddresses.Contains(target) {
		return opening{}, errors.New("the preamble names no channel address")
	}
	return opening{target: target, head: read[preambleLength:]}, nil
}

// opened returns the connection with its head put back.
func (o opening) opened(conn net.Conn) halfCloser {
	return readsFirst{conn.(halfCloser), io.MultiReader(bytes.NewReader(o.head), conn)}
}

// channelAt is where a channel address is dialed.
func channelAt(address netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(address, v1alpha1.ChannelPort)
}
