package introduction

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

// twoSides are providers whose channels are up and who have not answered.
func twoSides() [2]side {
	return [2]side{{name: "a", connected: true}, {name: "b", connected: true}}
}

func report(state string) *channel.Report { return &channel.Report{UID: "1", State: state} }

func direct() *channel.Report {
	return &channel.Report{
		UID: "1", State: string(v1alpha1.IntroductionAccepted), ActivePath: channel.PathDirect, DirectUp: true,
		DirectRTT: 20100, HubRTT: 80400, PodCIDR: "10.244.0.0/16", RemappedPodCIDR: "100.70.0.0/16", MTU: 1400, Since: time.Unix(1e9, 0),
	}
}

func hub() *channel.Report {
	r := direct()
	r.ActivePath, r.DirectUp = channel.PathHub, false
	return r
}

func TestAssess(t *testing.T) {
	for name, c := range map[string]struct {
		duplicate string
		mode      v1alpha1.ConnectionMode
		was       v1alpha1.ConnectionPhase
		change    func(*[2]side)
		phase     v1alpha1.ConnectionPhase
		status    metav1.ConditionStatus
		reason    string
		message   string
	}{
		"the reversed twin": {duplicate: "ab", change: func(*[2]side) {}, phase: v1alpha1.PhaseFailed, reason: v1alpha1.ReasonDuplicateConnection, message: "delete one of the two"},
		"disabled":          {mode: v1alpha1.ModeDisabled, change: func(*[2]side) {}, phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonDisabled, message: "set it to Prefer or Require"},
		"a cluster that is not there": {
			change: func(s *[2]side) { s[1].unfit = unfit("b", nil) },
			phase:  v1alpha1.PhasePending, reason: v1alpha1.ReasonUnknownCluster, message: "there is no ForeignCluster b here: peer with it",
		},
		"no channel": {
			change: func(s *[2]side) { s[0].connected, s[0].problem = false, "no route" },
			phase:  v1alpha1.PhasePending, reason: v1alpha1.ReasonProviderUnreachable, message: "no channel to a (no route): check that it runs",
		},
		"no answer": {change: func(*[2]side) {}, phase: v1alpha1.PhaseIntroduced, reason: v1alpha1.ReasonAwaitingAnswer, message: "a has not answered yet"},
		"what we say is refused": {
			change: func(s *[2]side) { s[1].refused, s[0].report = "too long", hub() },
			phase:  v1alpha1.PhaseIntroduced, reason: v1alpha1.ReasonAwaitingAnswer, message: "b refuses what this cluster says of itself: too long",
		},
		"an altered record, before the other answers": {
			change: func(s *[2]side) {
				s[1].report = report(channel.ReportInvalidRecord)
				s[1].report.Message = "the record's signature does not match"
			},
			phase: v1alpha1.PhaseFailed, reason: v1alpha1.ReasonRefusedRecord, message: "b refuses the record of a: the record's signature does not match; renew it here",
		},
		"denied": {
			change: func(s *[2]side) { s[0].report, s[1].report = report(channel.ReportDenied), direct() },
			phase:  v1alpha1.PhaseDenied, reason: v1alpha1.ReasonDenied, message: "a denies it",
		},
		"denied counts before the other's channel": {
			change: func(s *[2]side) { s[0].report, s[1].connected = report(channel.ReportDenied), false },
			phase:  v1alpha1.PhaseDenied, reason: v1alpha1.ReasonDenied, message: "a denies it",
		},
		"to be accepted": {
			change: func(s *[2]side) { s[1].report = report(string(v1alpha1.IntroductionAwaitingApproval)) },
			phase:  v1alpha1.PhaseIntroduced, reason: v1alpha1.ReasonAwaitingApproval, message: "b: its admin has to accept it",
		},
		"agreed, no probe answered": {
			change: func(s *[2]side) { s[0].report, s[1].report = hub(), hub() },
			phase:  v1alpha1.PhaseConnecting, reason: v1alpha1.ReasonConnecting, message: "no probe to b is answered: is the WireGuard port (UDP 51847 by default) open between their gateways?; the hub carries",
		},
		"up on one side": {
			change: func(s *[2]side) { s[0].report, s[1].report = direct(), hub(); s[1].report.DirectUp = true },
			phase:  v1alpha1.PhaseConnecting, reason: v1alpha1.ReasonConnecting, message: "the direct link is up, but b does not send to a over it",
		},
		"connected": {
			change: func(s *[2]side) { s[0].report, s[1].report = direct(), direct() },
			phase:  v1alpha1.PhaseConnected, status: metav1.ConditionTrue, reason: v1alpha1.ReasonDirectUp, message: "RTT 20.1 ms (through a hub 80.4 ms)",
		},
		"cut": {
			was: v1alpha1.PhaseConnected, change: func(s *[2]side) { s[0].report, s[1].report = hub(), hub() },
			phase: v1alpha1.PhaseDegraded, reason: v1alpha1.ReasonDirectDown, message: "the hub carries their traffic meanwhile",
		},
		"cut, while required": {
			was: v1alpha1.PhaseDegraded, mode: v1alpha1.ModeRequire, change: func(s *[2]side) { s[0].report, s[1].report = hub(), hub() },
			phase: v1alpha1.PhaseDegraded, reason: v1alpha1.ReasonDirectDown, message: "spec.mode Require keeps their traffic off the hub meanwhile",
		},
		"connected, one channel lost": {
			was: v1alpha1.PhaseConnected, change: func(s *[2]side) { s[0].report, s[0].connected, s[1].report = hub(), false, direct() },
			phase: v1alpha1.PhaseConnected, status: metav1.ConditionTrue, reason: v1alpha1.ReasonDirectUp, message: "b reports that the direct link is up; there is no channel to a",
		},
		"connected, one channel and the link lost": {
			was: v1alpha1.PhaseConnected, change: func(s *[2]side) { s[0].connected, s[1].report = false, hub() },
			phase: v1alpha1.PhaseDegraded, reason: v1alpha1.ReasonDirectDown, message: "b reports that the direct link is not in use",
		},
		"connected, nobody heard": {
			was: v1alpha1.PhaseConnected, change: func(s *[2]side) { s[0].connected, s[1].connected = false, false },
			phase: v1alpha1.PhaseConnected, status: metav1.ConditionUnknown, reason: v1alpha1.ReasonProviderUnreachable, message: "the link stands as it was",
		},
		"one leaves": {
			was: v1alpha1.PhaseConnected, change: func(s *[2]side) {
				s[0].report, s[1].report = hub(), report(string(v1alpha1.IntroductionEnding))
			},
			phase: v1alpha1.PhaseDegraded, reason: v1alpha1.ReasonDirectDown, message: "b is leaving the direct link",
		},
	} {
		t.Run(name, func(t *testing.T) {
			connection := &v1alpha1.ForeignClusterConnection{}
			connection.Spec.Mode, connection.Status.Phase = c.mode, c.was
			sides := twoSides()
			c.change(&sides)
			got := assess(connection, c.duplicate, sides)
			require.Equal(t, c.phase, got.phase, got.connected.Message)
			require.Equal(t, c.reason, got.connected.Reason)
			if c.status == "" {
				c.status = metav1.ConditionFalse
			}
			require.Equal(t, c.status, got.connected.Status)
			require.Contains(t, got.connected.Message, c.message)
		})
	}
}

// Each side shows its own pod CIDR and the view that the other one has of it;
// of a side that is not heard, what it said last.
func TestSides(t *testing.T) {
	sides := twoSides()
	sides[0].report, sides[1].report = direct(), direct()
	sides[1].report.RemappedPodCIDR, sides[1].report.PodCIDR = "100.71.0.0/16", "10.245.0.0/16"
	connection := &v1alpha1.ForeignClusterConnection{}
	got := assess(connection, "", sides)
	require.Equal(t, []v1alpha1.CIDR{"10.244.0.0/16", "100.71.0.0/16"}, []v1alpha1.CIDR{got.sides[0].PodCIDR, got.sides[0].RemappedPodCIDR})
	require.Equal(t, []v1alpha1.CIDR{"10.245.0.0/16", "100.70.0.0/16"}, []v1alpha1.CIDR{got.sides[1].PodCIDR, got.sides[1].RemappedPodCIDR})
	require.EqualValues(t, 80400, got.sides[0].HubRTTMicroseconds)
	require.Equal(t, metav1.ConditionTrue, got.accepted.Status)

	connection.Status.Phase, connection.Status.Sides = got.phase, got.sides
	sides[0] = side{name: "a", problem: "gone"}
	again := assess(connection, "", sides)
	require.Equal(t, v1alpha1.SideUnreachable, again.sides[0].State)
	require.Equal(t, got.sides[0].PodCIDR, again.sides[0].PodCIDR)
	require.Equal(t, got.sides[0].RemappedPodCIDR, again.sides[0].RemappedPodCIDR)
	require.Equal(t, string(v1alpha1.IntroductionAccepted), again.sides[1].State)
	require.Equal(t, metav1.ConditionUnknown, again.accepted.Status)
}
