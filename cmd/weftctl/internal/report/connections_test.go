package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// joined is a cluster that is peered with a and b and joins them, as far as the
// reason tells; ends are the endpoints that both publish.
func joined(t *testing.T, phase v1alpha1.ConnectionPhase, reason, message string, ends ...string) Input {
	t.Helper()
	in := well(t)
	in.Config.Spec.ClusterID = "c"
	second := *in.Clusters[0].DeepCopy()
	second.Name, second.Status.Paths[0].Via = "a", "a"
	in.Clusters = append(in.Clusters, second)
	for i := range in.Clusters {
		in.Clusters[i].Spec.Record = record(t, ends...)
	}
	fcc := v1alpha1.ForeignClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "a-b"}}
	fcc.Spec = v1alpha1.ForeignClusterConnectionSpec{ForeignClusterA: "a", ForeignClusterB: "b", Mode: v1alpha1.ModePrefer}
	fcc.Status.Phase = phase
	fcc.Status.Since = &metav1.Time{Time: now.Add(-5 * time.Minute)}
	status := metav1.ConditionFalse
	if phase == v1alpha1.PhaseConnected {
		status = metav1.ConditionTrue
	}
	if reason != "" {
		fcc.Status.Conditions = conditions(status, reason, message, v1alpha1.ConditionConnected)
	}
	in.Connections = []v1alpha1.ForeignClusterConnection{fcc}
	return in
}

func TestStatusShowsConnections(t *testing.T) {
	in := joined(t, v1alpha1.PhaseConnected, v1alpha1.ReasonDirectUp, "a and b send to each other over their direct link", "198.51.100.7")
	in.Connections[0].Status.Sides = []v1alpha1.ConnectionSide{
		{Name: "a", State: "Accepted", ActivePath: "Direct", DirectRTTMicroseconds: 20100, HubRTTMicroseconds: 80400, MTU: 1420,
			PodCIDR: "10.244.0.0/16", RemappedPodCIDR: "100.71.0.0/16", Since: &metav1.Time{Time: now.Add(-4 * time.Minute)}},
		{Name: "b", State: "Accepted", ActivePath: "Direct"},
	}
	r := Make(in)
	require.True(t, r.Healthy, "%+v", r.Problems)
	var text strings.Builder
	r.Text(&text)
	require.Regexp(t, `(?m)^a-b +Prefer +Connected +5m0s +a +Accepted +Direct +20\.10 ms +80\.40 ms +0\.0 % +1420$`, text.String())
	require.Regexp(t, `(?m)^ +b +Accepted +Direct +- +- +- +-$`, text.String())
	require.Contains(t, text.String(), "a-b: a and b send to each other over their direct link\n")

	data, err := json.Marshal(r.Connections)
	require.NoError(t, err)
	require.JSONEq(t, `[{"name": "a-b", "foreignClusterA": "a", "foreignClusterB": "b", "mode": "Prefer", "phase": "Connected",
		"reason": "DirectLinkUp", "message": "a and b send to each other over their direct link", "sinceSeconds": 300, "sides": [
		{"name": "a", "state": "Accepted", "podCIDR": "10.244.0.0/16", "remappedPodCIDR": "100.71.0.0/16", "activePath": "Direct",
		 "directRTTMilliseconds": 20.1, "hubRTTMilliseconds": 80.4, "directLossPercent": 0, "mtu": 1420, "sinceSeconds": 240},
		{"name": "b", "state": "Accepted", "activePath": "Direct", "directLossPercent": 0}]}]`, string(data))
}

// Each phase short of Connected is one problem, with what to do about it.
func TestConnectionProblems(t *testing.T) {
	sides := func(a, b string) func(*Input) {
		return func(in *Input) {
			in.Connections[0].Status.Sides = []v1alpha1.ConnectionSide{{Name: "a", State: a}, {Name: "b", State: b}}
		}
	}
	for name, c := range map[string]struct {
		phase    v1alpha1.ConnectionPhase
		reason   string
		nat      bool
		change   func(*Input)
		what, do string
	}{
		"not seen yet": {what: "weft-controller has not looked at it yet", do: "logs deployment/weft-controller"},
		"provider unreachable": {phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonProviderUnreachable, change: sides("Accepted", "Unreachable"),
			what: "Pending/ProviderUnreachable: because", do: "nothing, if b comes back: it is tried for ever"},
		"unknown cluster": {phase: v1alpha1.PhasePending, reason: v1alpha1.ReasonUnknownCluster,
			what: "Pending/UnknownForeignCluster: because", do: "peer with both (`weftctl peer`), or delete it: kubectl delete foreignclusterconnection a-b"},
		"awaiting approval": {phase: v1alpha1.PhaseIntroduced, reason: v1alpha1.ReasonAwaitingApproval, change: sides("AwaitingApproval", "Accepted"),
			what: "Introduced/AwaitingApproval: because", do: "an admin of a agrees by `weftctl access NAME --accept` there"},
		"awaiting both": {phase: v1alpha1.PhaseIntroduced, reason: v1alpha1.ReasonAwaitingApproval,
			what: "Introduced/AwaitingApproval", do: "an admin of a and b agrees"},
		"awaiting an answer": {phase: v1alpha1.PhaseIntroduced, reason: v1alpha1.ReasonAwaitingAnswer,
			what: "Introduced/AwaitingAnswer: because", do: "see `weftctl status` of a and b"},
		"denied": {phase: v1alpha1.PhaseDenied, reason: v1alpha1.ReasonDenied, change: sides("Accepted", "Denied"),
			what: "Denied: because", do: "an admin of b lets this cluster introduce others, by `weftctl access NAME --introductions Allow`"},
		"forged record": {phase: v1alpha1.PhaseFailed, reason: v1alpha1.ReasonRefusedRecord, change: sides("InvalidRecord", "Accepted"),
			what: "Failed/InvalidRecord: because", do: "the one that a refuses: `weftctl record` at that cluster"},
		"duplicate": {phase: v1alpha1.PhaseFailed, reason: v1alpha1.ReasonDuplicateConnection,
			what: "Failed/Duplicate: because", do: "kubectl delete foreignclusterconnection a-b"},
		"connecting": {phase: v1alpha1.PhaseConnecting, reason: v1alpha1.ReasonConnecting,
			what: "Connecting: because", do: "the gateways of a reach UDP 198.51.100.7 port 51847 of b, or the gateways of b reach UDP"},
		"degraded": {phase: v1alpha1.PhaseDegraded, reason: v1alpha1.ReasonDirectDown,
			what: "Degraded/DirectLinkDown: because", do: "the gateways of a reach UDP 198.51.100.7 port 51847 of b"},
		"two behind NAT": {phase: v1alpha1.PhaseConnecting, reason: v1alpha1.ReasonConnecting, nat: true,
			what: "neither a nor b publishes an endpoint, so they can never connect directly", do: "weftctl install --exposure HostPort"},
		"two behind NAT, later": {phase: v1alpha1.PhaseDegraded, reason: v1alpha1.ReasonDirectDown, nat: true,
			what: "they can never connect directly", do: "or delete the connection"},
		"two behind NAT, denied first": {phase: v1alpha1.PhaseDenied, reason: v1alpha1.ReasonDenied, nat: true,
			what: "Denied: because", do: "--introductions Allow"},
		"being deleted": {phase: v1alpha1.PhaseConnected, reason: v1alpha1.ReasonDirectUp,
			change: func(in *Input) { in.Connections[0].DeletionTimestamp = &metav1.Time{Time: now} },
			what:   "it is being withdrawn", do: "longer than 30 s"},
	} {
		t.Run(name, func(t *testing.T) {
			ends := []string{"198.51.100.7"}
			if c.nat {
				ends = nil
			}
			in := joined(t, c.phase, c.reason, "because", ends...)
			if c.change != nil {
				c.change(&in)
			}
			r := Make(in)
			require.Len(t, r.Problems, 1)
			require.Equal(t, "connection a-b", r.Problems[0].Object)
			require.Contains(t, r.Problems[0].What, c.what)
			require.Contains(t, r.Problems[0].Do, c.do)
			var text strings.Builder
			r.Text(&text)
			require.Equal(t, c.phase == v1alpha1.PhaseConnected, strings.Contains(text.String(), "\na-b: because"), "else the message stands among the problems")
		})
	}
}

// One that is switched off is as it should be, and says so.
func TestDisabledConnectionIsNoProblem(t *testing.T) {
	in := joined(t, v1alpha1.PhasePending, v1alpha1.ReasonDisabled, "spec.mode is Disabled", "198.51.100.7")
	in.Connections[0].Spec.Mode = v1alpha1.ModeDisabled
	r := Make(in)
	require.Empty(t, r.Problems)
	var text strings.Builder
	r.Text(&text)
	require.Regexp(t, `(?m)^a-b +Disabled +Pending +5m0s +a, b +-`, text.String())
	require.Contains(t, text.String(), "a-b: spec.mode is Disabled")
}

// Nobody knows how far a connection is while weft-controller does not run.
func TestConnectionOfStoppedController(t *testing.T) {
	in := joined(t, v1alpha1.PhaseConnected, v1alpha1.ReasonDirectUp, "a and b send to each other", "198.51.100.7")
	in.Connections[0].Status.Sides = []v1alpha1.ConnectionSide{{Name: "a", State: "Accepted", ActivePath: "Direct"}}
	in.Deployments[0].Status.AvailableReplicas = 0
	r := Make(in)
	require.Empty(t, r.Connections[0].Phase)
	require.Empty(t, r.Connections[0].Sides)
	var text strings.Builder
	r.Text(&text)
	require.Regexp(t, `(?m)^a-b +Prefer +unknown +- +a, b +-`, text.String())
	require.NotContains(t, text.String(), "a and b send to each other")
}
