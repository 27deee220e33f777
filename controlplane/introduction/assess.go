package introduction

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
)

// sidePending is the state of a side that is not introduced yet, or has not
// answered yet.
const sidePending = "Pending"

// side is what this cluster knows of one of the two providers.
type side struct {
	name string
	// unfit says why it cannot be introduced, empty if it can.
	unfit string
	// connected: its channel is up; if not, problem says why.
	connected bool
	problem   string
	// refused is why it refused what we said last, empty if it did not.
	refused string
	// told: it has reported on all connections since this process began.
	told bool
	// report is what it said of this connection last, nil: nothing.
	report *channel.Report
}

// fresh reports whether what the side says holds now.
func (s *side) fresh() bool { return s.connected && s.report != nil }

func (s *side) says(state string) bool { return s.fresh() && s.report.State == state }

func (s *side) agreed() bool { return s.says(string(v1alpha1.IntroductionAccepted)) }

// direct reports whether the side sends over the direct link, as it measures it.
func (s *side) direct() bool {
	return s.agreed() && s.report.DirectUp && s.report.ActivePath == channel.PathDirect
}

// assessment is the status of a connection.
type assessment struct {
	phase     v1alpha1.ConnectionPhase
	accepted  condition.Finding
	connected condition.Finding
	sides     []v1alpha1.ConnectionSide
}

// rttMark comes before the figures in a message.
const rttMark = ", RTT "

// assess sums up what is known of a connection. duplicate names the older
// connection of the same pair, if there is one. Every message says what to do.
func assess(c *v1alpha1.ForeignClusterConnection, duplicate string, sides [2]side) assessment {
	a := assessment{sides: sidesOf(c, sides), accepted: agreement(sides)}
	a.phase, a.connected = standing(c, duplicate, sides)
	if a.phase == v1alpha1.PhasePending || duplicate != "" {
		a.accepted = a.connected
	}
	return a
}

// standing finds phase and condition Connected.
func standing(c *v1alpha1.ForeignClusterConnection, duplicate string, sides [2]side) (v1alpha1.ConnectionPhase, condition.Finding) {
	if duplicate != "" {
		return v1alpha1.PhaseFailed, condition.No(v1alpha1.ReasonDuplicateConnection,
			"ForeignClusterConnection %s joins the same two clusters and is older: delete one of the two", duplicate)
	}
	if c.Spec.Mode == v1alpha1.ModeDisabled {
		return v1alpha1.PhasePending, condition.No(v1alpha1.ReasonDisabled,
			"spec.mode is Disabled: set it to Prefer or Require to join %s and %s directly", sides[0].name, sides[1].name)
	}
	for i := range sides {
		if sides[i].unfit != "" {
			return v1alpha1.PhasePending, condition.No(v1alpha1.ReasonUnknownCluster, "%s", sides[i].unfit)
		}
	}
	if phase, f, refused := refusal(sides); refused {
		return phase, f
	}
	if !sides[0].connected || !sides[1].connected {
		return unheard(c, sides)
	}
	if f, waiting := answer(sides); waiting {
		return v1alpha1.PhaseIntroduced, f
	}
	return link(c, sides)
}

// refusal tells of a provider that says no.
func refusal(sides [2]side) (v1alpha1.ConnectionPhase, condition.Finding, bool) {
	for i := range sides {
		if s, other := &sides[i], &sides[1-i]; s.says(channel.ReportInvalidRecord) {
			return v1alpha1.PhaseFailed, condition.No(v1alpha1.ReasonRefusedRecord, "%s refuses the record of %s: %s; renew it here (weftctl record, run at %s, prints it)",
				s.name, other.name, sentence(s.report.Message, "it is not valid"), other.name), true
		}
	}
	for i := range sides {
		if s := &sides[i]; s.says(channel.ReportDenied) {
			return v1alpha1.PhaseDenied, condition.No(v1alpha1.ReasonDenied, "%s denies it: %s", s.name,
				sentence(s.report.Message, "its admin has to allow introductions by this cluster (weftctl access, run there)")), true
		}
	}
	return "", condition.Finding{}, false
}

// unheard tells of a provider without a channel. A link that was up needs
// nobody's channel: what the other end measures counts, else what was.
func unheard(c *v1alpha1.ForeignClusterConnection, sides [2]side) (v1alpha1.ConnectionPhase, condition.Finding) {
	away, other := &sides[0], &sides[1]
	if away.connected {
		away, other = other, away
	}
	cause := fmt.Sprintf("there is no channel to %s (%s): check that it runs and that its gateways can be reached; it is tried for ever", away.name, sentence(away.problem, "it is being dialed"))
	switch {
	case !wasConnected(c):
		return v1alpha1.PhasePending, condition.No(v1alpha1.ReasonProviderUnreachable, "%s", cause)
	case other.direct():
		return v1alpha1.PhaseConnected, condition.Yes(v1alpha1.ReasonDirectUp, "%s reports that the direct link is up; %s%s", other.name, cause, rtt(other.report))
	case other.agreed():
		return v1alpha1.PhaseDegraded, condition.No(v1alpha1.ReasonDirectDown, "%s reports that the direct link is not in use, and %s", other.name, cause)
	}
	return c.Status.Phase, condition.Unknown(v1alpha1.ReasonProviderUnreachable, "the link stands as it was: %s", cause)
}

// answer tells of a provider that has not agreed yet.
func answer(sides [2]side) (condition.Finding, bool) {
	for i := range sides {
		if s := &sides[i]; s.says(string(v1alpha1.IntroductionAwaitingApproval)) {
			return condition.No(v1alpha1.ReasonAwaitingApproval, "%s: %s", s.name, sentence(s.report.Message, "its admin has to accept it (weftctl access NAME --accept, run there)")), true
		}
	}
	for i := range sides {
		switch s := &sides[i]; {
		case s.report != nil:
		case s.refused != "":
			return condition.No(v1alpha1.ReasonAwaitingAnswer, "%s refuses what this cluster says of itself: %s", s.name, s.refused), true
		default:
			return condition.No(v1alpha1.ReasonAwaitingAnswer, "%s has not answered yet: if it does not within a minute, check that its controller runs and is of a release that knows introductions", s.name), true
		}
	}
	return condition.Finding{}, false
}

// link tells of the direct link that both agreed to.
func link(c *v1alpha1.ForeignClusterConnection, sides [2]side) (v1alpha1.ConnectionPhase, condition.Finding) {
	if sides[0].direct() && sides[1].direct() {
		return v1alpha1.PhaseConnected, condition.Yes(v1alpha1.ReasonDirectUp, "%s and %s send to each other over their direct link%s", sides[0].name, sides[1].name, rtt(sides[0].report))
	}
	f := linkProblem(c, sides)
	if wasConnected(c) {
		return v1alpha1.PhaseDegraded, f
	}
	f.Reason = v1alpha1.ReasonConnecting
	return v1alpha1.PhaseConnecting, f
}

// linkProblem says why not both send over the direct link.
func linkProblem(c *v1alpha1.ForeignClusterConnection, sides [2]side) condition.Finding {
	meanwhile := "the hub carries their traffic meanwhile"
	if modeOf(c) == v1alpha1.ModeRequire {
		meanwhile = "spec.mode Require keeps their traffic off the hub meanwhile"
	}
	for i := range sides {
		if s := &sides[i]; s.says(string(v1alpha1.IntroductionEnding)) {
			return condition.No(v1alpha1.ReasonDirectDown, "%s is leaving the direct link: look there at the conditions of the ForeignCluster that stands for this cluster (weftctl status); %s", s.name, meanwhile)
		}
	}
	for i := range sides {
		if s, other := &sides[i], &sides[1-i]; !s.report.DirectUp {
			why := fmt.Sprintf("no probe to %s is answered: is the WireGuard port (UDP 51847 by default) open between their gateways?", other.name)
			return condition.No(v1alpha1.ReasonDirectDown, "the direct link is not up, as %s sees it: %s; %s", s.name, sentence(s.report.Message, why), meanwhile)
		}
	}
	s, other := &sides[0], &sides[1]
	if s.direct() {
		s, other = other, s
	}
	return condition.No(v1alpha1.ReasonDirectDown, "the direct link is up, but %s does not send to %s over it: until it has lasted for some seconds, or while the hub is faster; %s", s.name, other.name, meanwhile)
}

func rtt(r *channel.Report) string {
	if r.DirectRTT == 0 {
		return ""
	}
	text := fmt.Sprintf("%s%.1f ms", rttMark, float64(r.DirectRTT)/1000)
	if r.HubRTT != 0 {
		text += fmt.Sprintf(" (through a hub %.1f ms)", float64(r.HubRTT)/1000)
	}
	return text
}

// agreement is condition Accepted: whether both providers agreed.
func agreement(sides [2]side) condition.Finding {
	if _, f, refused := refusal(sides); refused {
		return f
	}
	for i := range sides {
		if s := &sides[i]; !s.connected && s.report == nil {
			return condition.Unknown(v1alpha1.ReasonProviderUnreachable, "%s was not heard since this controller started", s.name)
		}
	}
	if f, waiting := answer(sides); waiting {
		return f
	}
	return condition.Yes(string(v1alpha1.IntroductionAccepted), "%s and %s have agreed", sides[0].name, sides[1].name)
}

// sidesOf lists what each side reports. Of one that is not heard, what it said
// last stands.
func sidesOf(c *v1alpha1.ForeignClusterConnection, sides [2]side) []v1alpha1.ConnectionSide {
	out := make([]v1alpha1.ConnectionSide, 2)
	for i := range sides {
		for _, earlier := range c.Status.Sides {
			if earlier.Name == sides[i].name {
				out[i] = earlier
			}
		}
	}
	for i := range sides {
		s := &sides[i]
		switch r := s.report; {
		case r != nil:
			out[i] = reported(s.name, r)
			if sides[1-i].report != nil {
				out[i].RemappedPodCIDR = sides[1-i].report.RemappedPodCIDR
			}
		case s.connected:
			out[i] = v1alpha1.ConnectionSide{}
		}
		out[i].Name = s.name
		if r := s.report; r == nil {
			out[i].State = sidePending
		}
		if !s.connected {
			out[i].State = v1alpha1.SideUnreachable
		}
	}
	return out
}

func reported(name string, r *channel.Report) v1alpha1.ConnectionSide {
	out := v1alpha1.ConnectionSide{
		Name: name, State: r.State, PodCIDR: r.PodCIDR, ActivePath: r.ActivePath,
		DirectRTTMicroseconds: r.DirectRTT, HubRTTMicroseconds: r.HubRTT,
		DirectLossPermille: r.DirectLossPermille, MTU: r.MTU,
	}
	if !r.Since.IsZero() {
		since := metav1.NewTime(r.Since.UTC().Truncate(time.Second))
		out.Since = &since
	}
	return out
}

func sentence(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
