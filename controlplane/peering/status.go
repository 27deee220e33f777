package peering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/measure"
)

// figuresEvery is how often figures (RTT, loss) alone may make a write.
const figuresEvery = 30 * time.Second

// finding is the status of one condition.
type finding struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

func yes(reason, format string, args ...any) finding {
	return finding{metav1.ConditionTrue, reason, fmt.Sprintf(format, args...)}
}

func no(reason, format string, args ...any) finding {
	return finding{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(reason, format string, args ...any) finding {
	return finding{metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

func (f finding) set(status *v1alpha1.ForeignClusterStatus, kind string, generation int64) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: f.status, Reason: f.reason, Message: f.message, ObservedGeneration: generation,
	})
}

// channelFinding says whether the peer channel is up.
func channelFinding(name string, s channel.Status) finding {
	switch {
	case s.Connected && s.Dialed:
		return yes(ReasonEstablished, "the channel to %s is up, dialed from here", name)
	case s.Connected:
		return yes(ReasonEstablished, "the channel to %s is up, dialed from there", name)
	case s.Left:
		return no(ReasonPeerLeft, "%s has ended the peering; delete this ForeignCluster (weftctl unpeer), or peer again there", name)
	case s.Problem != "":
		return no(ReasonDialing, "no channel to %s yet: %s", name, s.Problem)
	}
	return no(ReasonDialing, "no channel to %s yet; it is being dialed", name)
}

// exchange is what networksFinding looks at.
type exchange struct {
	name     string
	spec     *v1alpha1.NeighborSpec
	own      []v1alpha1.OwnNetwork
	channel  channel.Status
	prefixes error // what found no prefix
	inPlace  bool
	waiting  string
}

// networksFinding says whether both sides know each other's networks and wire
// prefixes and our gateways hold the rows.
func networksFinding(x exchange) finding {
	ours, theirs := 0, map[int32]bool{}
	for _, row := range x.spec.Rows {
		if row.Side == v1alpha1.RowOurs {
			ours++
		} else {
			theirs[row.NetworkIndex] = true
		}
	}
	switch {
	case x.channel.Refused != "":
		return no(ReasonRefused, "what %s says of itself is refused: %s; what it said before stands", x.name, x.channel.Refused)
	case x.prefixes != nil:
		return no(ReasonPrefixes, "%s", x.prefixes)
	case len(x.spec.Networks) == 0:
		return no(ReasonWaitingForPeer, "%s has not told its networks yet", x.name)
	case ours == 0:
		return no(ReasonWaitingForAgents, "no node of this cluster is a gateway yet")
	case !x.inPlace:
		return no(ReasonWaitingForAgents, "%s", x.waiting)
	case x.channel.PeerRefused != "" && len(theirs) == 0:
		return no(ReasonRefused, "%s refuses what this cluster says of itself: %s", x.name, x.channel.PeerRefused)
	}
	for _, n := range x.own {
		if !theirs[n.Index] {
			return no(ReasonWaitingForPeer, "%s has not told its wire prefix for our network %s (%s) yet", x.name, n.Name, n.CIDR)
		}
	}
	return yes(ReasonReady, "%s from there, %s from here, in place on all gateways", plural(len(x.spec.Networks), "network"), plural(len(x.own), "network"))
}

// connectedFinding says what the probes saw; earlier is the verdict of the
// stages before. Probes need rows of both ends: without them, what was read is
// from before a re-peering.
func connectedFinding(name string, spec *v1alpha1.NeighborSpec, view measure.View, earlier finding, s channel.Status) finding {
	if s.Left {
		return no(ReasonPeerLeft, "%s has ended the peering; delete this ForeignCluster (weftctl unpeer), or peer again there", name)
	}
	if !bothSides(spec.Rows) {
		return no(ReasonNotReady, "%s", earlier.message)
	}
	var up, all int
	var best int64
	probing := true
	for _, l := range view.Paths {
		if l.ClusterIndex != spec.ClusterIndex || l.Cluster != name {
			continue
		}
		all++
		probing = probing && l.State == v1alpha1.PathUnknown
		if l.State == v1alpha1.PathUp {
			up++
			if best == 0 || l.RTTMicroseconds < best {
				best = l.RTTMicroseconds
			}
		}
	}
	switch {
	case up > 0:
		return yes(ReasonLinksUp, "%d of %d links up%s%.1f ms", up, all, rttMark, float64(best)/1000)
	case len(view.Unreadable) > 0:
		node, why := firstUnreadable(view.Unreadable)
		return unknown(ReasonUnreadable, "what gateway %s measures cannot be read: %s", node, why)
	case earlier.status != metav1.ConditionTrue && (all == 0 || probing):
		return no(ReasonNotReady, "%s", earlier.message)
	case all == 0:
		return no(ReasonProbing, "no gateway of this cluster probes a link to %s yet", name)
	case probing:
		return no(ReasonProbing, "0 of %d links up: no probe has been answered yet; is the UDP port of the lane open between the gateways?", all)
	}
	return no(ReasonLinksDown, "0 of %d links up: probes are not answered any more; does the underlay between the gateways work?", all)
}

func bothSides(rows []v1alpha1.Row) bool {
	has := map[v1alpha1.RowSide]bool{}
	for _, row := range rows {
		has[row.Side] = true
	}
	return has[v1alpha1.RowOurs] && has[v1alpha1.RowTheirs]
}

// rttMark comes before the figures in a message that is true.
const rttMark = ", RTT "

func firstUnreadable(unreadable map[string]string) (string, string) {
	nodes := make([]string, 0, len(unreadable))
	for node := range unreadable {
		nodes = append(nodes, node)
	}
	first := slices.Min(nodes)
	return first, unreadable[first]
}

// maxPaths is what ForeignCluster.status.paths holds.
const maxPaths = 64

// pathsOf lists the links to a neighbor as measured, at most maxPaths.
func pathsOf(name string, index int32, view measure.View) []v1alpha1.PathStatus {
	var paths []v1alpha1.PathStatus
	links := slices.Clone(view.Paths)
	slices.SortFunc(links, func(a, b agent.Path) int {
		return cmp.Or(cmp.Compare(a.OwnGateway, b.OwnGateway), cmp.Compare(a.RemoteGateway, b.RemoteGateway))
	})
	for _, l := range links {
		if l.ClusterIndex != index || l.Cluster != name || len(paths) == maxPaths {
			continue
		}
		paths = append(paths, v1alpha1.PathStatus{
			Via: l.Via, Gateway: l.OwnGateway, RemoteGateway: l.RemoteGateway, State: l.State,
			RTTMicroseconds: l.RTTMicroseconds, LossPermille: l.LossPermille,
			Active: l.Active, Reason: l.Reason,
			Since: metav1.NewTime(l.Since.Truncate(time.Second)),
		})
	}
	return paths
}

func remapped(spec *v1alpha1.NeighborSpec) []v1alpha1.RemappedNetwork {
	var out []v1alpha1.RemappedNetwork
	for _, n := range spec.Networks {
		out = append(out, v1alpha1.RemappedNetwork{Name: n.Name, Kind: n.Kind, Original: n.Original, Remapped: n.Local})
	}
	return out
}

// worthWriting reports whether a status differs in more than figures, or in
// figures that are old enough.
func worthWriting(before, after *v1alpha1.ForeignClusterStatus, sinceWrite time.Duration) bool {
	if equality.Semantic.DeepEqual(before, after) {
		return false
	}
	return sinceWrite >= figuresEvery || !equality.Semantic.DeepEqual(withoutFigures(before), withoutFigures(after))
}

func withoutFigures(s *v1alpha1.ForeignClusterStatus) *v1alpha1.ForeignClusterStatus {
	out := s.DeepCopy()
	for i := range out.Paths {
		out.Paths[i].RTTMicroseconds, out.Paths[i].LossPermille = 0, 0
	}
	for i := range out.Conditions {
		out.Conditions[i].Message, _, _ = strings.Cut(out.Conditions[i].Message, rttMark)
	}
	return out
}
