package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Connection is a ForeignClusterConnection: a direct link between two others.
type Connection struct {
	Name         string                   `json:"name"`
	A            string                   `json:"foreignClusterA"`
	B            string                   `json:"foreignClusterB"`
	Mode         v1alpha1.ConnectionMode  `json:"mode"`
	Phase        v1alpha1.ConnectionPhase `json:"phase,omitempty"`
	Reason       string                   `json:"reason,omitempty"`
	Message      string                   `json:"message,omitempty"`
	SinceSeconds int64                    `json:"sinceSeconds,omitempty"`
	Sides        []Side                   `json:"sides"`
}

// Side is one of the two clusters as it reports itself.
type Side struct {
	Name                  string        `json:"name"`
	State                 string        `json:"state"`
	PodCIDR               v1alpha1.CIDR `json:"podCIDR,omitempty"`
	RemappedPodCIDR       v1alpha1.CIDR `json:"remappedPodCIDR,omitempty"`
	ActivePath            string        `json:"activePath,omitempty"`
	DirectRTTMilliseconds float64       `json:"directRTTMilliseconds,omitempty"`
	HubRTTMilliseconds    float64       `json:"hubRTTMilliseconds,omitempty"`
	DirectLossPercent     float64       `json:"directLossPercent"`
	MTU                   int32         `json:"mtu,omitempty"`
	SinceSeconds          int64         `json:"sinceSeconds,omitempty"`
}

func makeConnection(fcc *v1alpha1.ForeignClusterConnection, now time.Time) Connection {
	c := Connection{
		Name: fcc.Name, A: fcc.Spec.ForeignClusterA, B: fcc.Spec.ForeignClusterB,
		Mode: fcc.Spec.Mode, Phase: fcc.Status.Phase, Sides: []Side{},
	}
	if fcc.Status.Since != nil {
		c.SinceSeconds = sinceSeconds(fcc.Status.Since.Time, now)
	}
	if connected := meta.FindStatusCondition(fcc.Status.Conditions, v1alpha1.ConditionConnected); connected != nil {
		c.Reason, c.Message = connected.Reason, connected.Message
	}
	for _, s := range fcc.Status.Sides {
		side := Side{
			Name: s.Name, State: s.State, PodCIDR: s.PodCIDR, RemappedPodCIDR: s.RemappedPodCIDR, ActivePath: s.ActivePath,
			DirectRTTMilliseconds: milliseconds(s.DirectRTTMicroseconds), HubRTTMilliseconds: milliseconds(s.HubRTTMicroseconds),
			DirectLossPercent: percent(s.DirectLossPermille), MTU: s.MTU,
		}
		if s.Since != nil {
			side.SinceSeconds = sinceSeconds(s.Since.Time, now)
		}
		c.Sides = append(c.Sides, side)
	}
	return c
}

// forgetState drops what is only known while weft-controller runs.
func (c *Connection) forgetState() {
	c.Phase, c.Reason, c.Message, c.SinceSeconds, c.Sides = "", "", "", 0, []Side{}
}

// settled reports whether the connection is as its mode asks for.
func (c Connection) settled() bool {
	return c.Phase == v1alpha1.PhaseConnected || c.Mode == v1alpha1.ModeDisabled
}

// connectionProblem reports a connection that is not what its mode asks for.
func connectionProblem(in Input, fcc *v1alpha1.ForeignClusterConnection) (Problem, bool) {
	c := makeConnection(fcc, in.Now)
	problem := Problem{Object: "connection " + c.Name, What: describePhase(c), Do: connectionAdvice(in, c)}
	switch {
	case fcc.DeletionTimestamp != nil:
		problem.What, problem.Do = "it is being withdrawn", "wait; `kubectl -n "+v1alpha1.SystemNamespace+" logs deployment/weft-controller` if it takes longer than 30 s"
	case c.settled():
		return Problem{}, false
	case c.Phase == "":
		problem.What = "weft-controller has not looked at it yet"
		problem.Do = fmt.Sprintf("kubectl -n %s logs deployment/weft-controller", v1alpha1.SystemNamespace)
	case linking(c.Phase) && unreachable(in, c.A) && unreachable(in, c.B):
		problem.What = fmt.Sprintf("%s: neither %s nor %s publishes an endpoint, so they can never connect directly", c.Phase, c.A, c.B)
		problem.Do = "give the gateways of one of them an endpoint: `weftctl install --exposure HostPort` or --endpoint there; or delete the connection"
	}
	return problem, true
}

func describePhase(c Connection) string {
	what := string(c.Phase)
	if c.Reason != "" && c.Reason != what {
		what += "/" + c.Reason
	}
	if c.Message != "" {
		what += ": " + c.Message
	}
	return what
}

// linking reports whether both have agreed, so that the tunnel alone is missing.
func linking(phase v1alpha1.ConnectionPhase) bool {
	return phase == v1alpha1.PhaseConnecting || phase == v1alpha1.PhaseDegraded
}

// unreachable reports whether a cluster that is known here publishes no
// endpoint: it is behind NAT and can only dial out.
func unreachable(in Input, name string) bool {
	fcl := named(in, name)
	if fcl == nil {
		return false
	}
	record, err := identity.ParseRecord(newest(fcl))
	return err == nil && !slices.ContainsFunc(record.Gateways, func(g identity.Gateway) bool { return len(g.Endpoints) > 0 })
}

func named(in Input, name string) *v1alpha1.ForeignCluster {
	for i := range in.Clusters {
		if in.Clusters[i].Name == name {
			return &in.Clusters[i]
		}
	}
	return nil
}

// connectionAdvice for the reason that its condition gives.
func connectionAdvice(in Input, c Connection) string {
	switch c.Reason {
	case v1alpha1.ReasonProviderUnreachable:
		return fmt.Sprintf("nothing, if %s comes back: it is tried for ever; else see `weftctl status` there and what is said of it here", sidesIn(c, v1alpha1.SideUnreachable))
	case v1alpha1.ReasonUnknownCluster:
		return fmt.Sprintf("peer with both (`weftctl peer`), or delete it: kubectl delete foreignclusterconnection %s", c.Name)
	case v1alpha1.ReasonAwaitingApproval:
		return fmt.Sprintf("an admin of %s agrees by `weftctl access NAME --accept` there, NAME being the other one's name", sidesIn(c, string(v1alpha1.IntroductionAwaitingApproval)))
	case v1alpha1.ReasonDenied:
		return fmt.Sprintf("an admin of %s lets this cluster introduce others, by `weftctl access NAME --introductions Allow` (or Ask) there, NAME being this cluster's name; or delete the connection", sidesIn(c, v1alpha1.ReasonDenied))
	case v1alpha1.ReasonRefusedRecord:
		return fmt.Sprintf("renew the record of the one that %s refuses: `weftctl record` at that cluster, then kubectl apply here", sidesIn(c, v1alpha1.ReasonRefusedRecord))
	case v1alpha1.ReasonDuplicateConnection:
		return "kubectl delete foreignclusterconnection " + c.Name
	case v1alpha1.ReasonDirectDown, v1alpha1.ReasonConnecting:
		return linkAdvice(in, c)
	}
	return fmt.Sprintf("see `weftctl status` of %s and %s", c.A, c.B)
}

// sidesIn names the sides of that state, both if it is not known which.
func sidesIn(c Connection, state string) string {
	var names []string
	for _, side := range c.Sides {
		if side.State == state {
			names = append(names, side.Name)
		}
	}
	if len(names) == 0 {
		names = []string{c.A, c.B}
	}
	return strings.Join(names, " and ")
}

// linkAdvice says which UDP port one of the two must reach at the other.
func linkAdvice(in Input, c Connection) string {
	var ways []string
	for _, pair := range [][2]string{{c.A, c.B}, {c.B, c.A}} {
		if fcl := named(in, pair[1]); fcl != nil {
			if targets := dialTargets(newest(fcl)); targets != "" {
				ways = append(ways, fmt.Sprintf("the gateways of %s reach UDP %s of %s", pair[0], targets, pair[1]))
			}
		}
	}
	if len(ways) == 0 {
		return fmt.Sprintf("see `weftctl status` of %s and %s", c.A, c.B)
	}
	return "check that " + strings.Join(ways, ", or ") + ", and see `weftctl status` there"
}
