package channel

import (
	"fmt"
	"net/netip"
	"time"

	channelv1 "github.com/weft-fabric/weft/apis/channel/v1"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const (
	// MaxReports is how many reports one peer may send.
	MaxReports = MaxIntroductions
	// maxRTT in microseconds: longer ones are shown as this.
	maxRTT = int64(time.Hour / time.Microsecond)
	// maxSince is the last second of the year 9999, beyond which times have no
	// JSON (RFC 3339).
	maxSince = 253402300799
)

// States of a Report beside those of v1alpha1.IntroductionState.
const (
	ReportDenied        = "Denied"
	ReportInvalidRecord = "InvalidRecord"
)

// Report says what became of an introduction at the cluster that sends it.
type Report struct {
	UID string
	// State is a v1alpha1.IntroductionState or one of the above.
	State string
	// Message is one sentence with cause and remedy, empty where all is well.
	Message string
	// PodCIDR is the sender's own, RemappedPodCIDR its view of the other's pods.
	PodCIDR, RemappedPodCIDR v1alpha1.CIDR
	// ActivePath is PathDirect, PathHub or PathNone.
	ActivePath string
	DirectUp   bool
	// RTTs in microseconds, smoothed; 0: not measured.
	DirectRTT, HubRTT  int64
	DirectLossPermille int32
	MTU                int32
	// Since is when ActivePath last changed, in whole seconds.
	Since time.Time
}

// Active paths of a Report.
const (
	PathDirect = "Direct"
	PathHub    = "Hub"
	PathNone   = "None"
)

var reportStates = map[string]channelv1.Report_State{
	string(v1alpha1.IntroductionAccepted):         channelv1.Report_STATE_ACCEPTED,
	string(v1alpha1.IntroductionAwaitingApproval): channelv1.Report_STATE_AWAITING_APPROVAL,
	string(v1alpha1.IntroductionEnding):           channelv1.Report_STATE_ENDING,
	ReportDenied:                                  channelv1.Report_STATE_DENIED,
	ReportInvalidRecord:                           channelv1.Report_STATE_INVALID_RECORD,
}

var reportPaths = map[string]channelv1.Report_Path{
	PathDirect: channelv1.Report_PATH_DIRECT,
	PathHub:    channelv1.Report_PATH_HUB,
	PathNone:   channelv1.Report_PATH_NONE,
}

func (r Report) encode() *channelv1.Report {
	out := &channelv1.Report{
		Uid: r.UID, State: reportStates[r.State], Message: clip(r.Message),
		PodCidr: string(r.PodCIDR), RemappedPodCidr: string(r.RemappedPodCIDR),
		Active: reportPaths[r.ActivePath], DirectUp: r.DirectUp,
		DirectRtt: uint64(max(r.DirectRTT, 0)), HubRtt: uint64(max(r.HubRTT, 0)),
		DirectLossPermille: uint32(max(r.DirectLossPermille, 0)), Mtu: uint32(max(r.MTU, 0)),
	}
	if !r.Since.IsZero() {
		out.Since = uint64(max(r.Since.Unix(), 0))
	}
	return out
}

// decodeReports leaves out those that cannot be understood. One that was told
// well before stands as it was.
func (d *decoded) decodeReports(in []*channelv1.Report, last []Report) ([]Report, error) {
	if len(in) > MaxReports {
		return nil, fmt.Errorf("%d reports are made; at most %d are allowed", len(in), MaxReports)
	}
	s := newSelection(last, func(r Report) string { return r.UID })
	for n, r := range in {
		item, err := decodeReport(r)
		s.add(fmt.Sprintf("report %d", n+1), r.GetUid(), item, err)
	}
	d.leftOut = append(d.leftOut, s.leftOut...)
	return s.taken, nil
}

// decodeReport bounds what is only shown, and refuses what is acted on.
func decodeReport(in *channelv1.Report) (Report, error) {
	out := Report{
		UID: in.GetUid(), Message: clip(in.GetMessage()), ActivePath: PathNone, DirectUp: in.GetDirectUp(),
		PodCIDR: shownCIDR(in.GetPodCidr()), RemappedPodCIDR: shownCIDR(in.GetRemappedPodCidr()),
		DirectRTT: int64(min(in.GetDirectRtt(), uint64(maxRTT))), HubRTT: int64(min(in.GetHubRtt(), uint64(maxRTT))),
		DirectLossPermille: int32(min(in.GetDirectLossPermille(), 1000)), MTU: int32(min(in.GetMtu(), maxMTU)),
	}
	if !uidPattern.MatchString(out.UID) {
		return out, fmt.Errorf("%.70q is no UID", out.UID)
	}
	for state, wire := range reportStates {
		if wire == in.GetState() {
			out.State = state
		}
	}
	if out.State == "" {
		return out, fmt.Errorf("state %d is not known to this release", in.GetState())
	}
	for path, wire := range reportPaths {
		if wire == in.GetActive() {
			out.ActivePath = path
		}
	}
	if since := min(in.GetSince(), maxSince); since != 0 {
		out.Since = time.Unix(int64(since), 0).UTC()
	}
	return out, nil
}

// shownCIDR returns what a status may hold: a CIDR without host bits, else
// nothing.
func shownCIDR(text string) v1alpha1.CIDR {
	if len(text) > 43 {
		return ""
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() {
		return ""
	}
	return v1alpha1.CIDR(p.String())
}
