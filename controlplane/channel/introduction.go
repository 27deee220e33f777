package channel

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// MaxIntroductions is how many introductions one peer may make here.
	MaxIntroductions = 64
	// maxRecord in bytes is what identity.ParseRecord reads at most.
	maxRecord = 16384
	// maxLease: longer ones are as good as this. minLease is what the API takes at
	// least: a deadline is written anew again and again.
	maxLease = 10 * 365 * 24 * time.Hour
	minLease = time.Minute
)

var (
	// objectName is a DNS subdomain (RFC 1123), as Kubernetes names objects.
	objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	uidPattern = regexp.MustCompile(`^[0-9a-zA-Z-]{1,64}$`)
)

// Introduction asks the receiver to peer directly with another cluster.
type Introduction struct {
	// Connection and UID of the ForeignClusterConnection at the sender.
	Connection string
	UID        string
	// Record of the other cluster, signed by it. It is text that nobody has checked:
	// a bad one is answered by a Report, not by refusing the snapshot.
	Record string
	// Mode is ModePrefer or ModeRequire.
	Mode v1alpha1.ConnectionMode
	// MTU in bytes, 0: none asked for. Lease in whole seconds, 0: for ever.
	MTU   int32
	Lease time.Duration
}

var modes = map[v1alpha1.ConnectionMode]channelv1.Introduction_Mode{
	v1alpha1.ModePrefer:  channelv1.Introduction_MODE_PREFER,
	v1alpha1.ModeRequire: channelv1.Introduction_MODE_REQUIRE,
}

// encode rounds the lease up: 0 would be for ever.
func (i Introduction) encode() *channelv1.Introduction {
	return &channelv1.Introduction{
		Connection: i.Connection, Uid: i.UID, Record: i.Record, Mode: modes[i.Mode], Mtu: uint32(max(i.MTU, 0)),
		LeaseSeconds: uint64(min(max(i.Lease, 0), maxLease)+time.Second-1) / uint64(time.Second),
	}
}

// decodeIntroductions leaves out what cannot be understood and so not be
// answered by a Report. One that was told well before stands as it was.
func (d *decoded) decodeIntroductions(in []*channelv1.Introduction, last []Introduction) ([]Introduction, error) {
	if len(in) > MaxIntroductions {
		return nil, fmt.Errorf("%d clusters are introduced; at most %d are allowed", len(in), MaxIntroductions)
	}
	s := newSelection(last, func(i Introduction) string { return i.UID })
	for n, i := range in {
		item, err := decodeIntroduction(i)
		s.add(fmt.Sprintf("introduction %d (%.60q)", n+1, i.GetConnection()), i.GetUid(), item, err)
	}
	d.leftOut = append(d.leftOut, s.leftOut...)
	return s.taken, nil
}

func decodeIntroduction(in *channelv1.Introduction) (Introduction, error) {
	out := Introduction{Connection: in.GetConnection(), UID: in.GetUid(), Record: in.GetRecord()}
	if !uidPattern.MatchString(out.UID) {
		return out, fmt.Errorf("%.70q is no UID", out.UID)
	}
	if !objectName.MatchString(out.Connection) {
		return out, errors.New("the connection's name is not one of an object in Kubernetes")
	}
	if len(out.Record) > maxRecord {
		out.Record = clip(out.Record) // no record any more, and was none
	}
	for mode, wire := range modes {
		if wire == in.GetMode() {
			out.Mode = mode
		}
	}
	if out.Mode == "" {
		return out, fmt.Errorf("mode %d is not known to this release", in.GetMode())
	}
	// A wish that no link can fulfil becomes the nearest that one can.
	if mtu := in.GetMtu(); mtu != 0 {
		out.MTU = int32(min(max(mtu, minMTU), maxMTU))
	}
	if lease := in.GetLeaseSeconds(); lease != 0 {
		out.Lease = max(time.Duration(min(lease, uint64(maxLease/time.Second)))*time.Second, minLease)
	}
	return out, nil
}
