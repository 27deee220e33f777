package peering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
	"github.com/weft-fabric/weft/controlplane/measure"
)

// figuresEvery is how often figures (RTT, loss) alone may make a write.
const figuresEvery = 30 * time.Second

// channelFinding says whether the peer channel is up.
func channelFinding(w ways, s channel.Status) condition.Finding {
	switch {
	case s.Connected && s.Dialed:
		return condition.Yes(ReasonEstablished, "the channel to %s is up, dialed from here", w.name)
	case s.Connected:
		return condition.Yes(ReasonEstablished, "the channel to %s is up, dialed from there", w.name)
	case s.Left:
		return leftFinding(w)
	case s.Problem != "" && !w.direct:
		return condition.No(ReasonDialing, "no channel to %s through %s yet: %s", w.name, w.through(), s.Problem)
	case s.Problem != "":
		return condition.No(ReasonDialing, "no channel to %s yet: %s", w.name, s.Problem)
	}
	return condition.No(ReasonDialing, "no channel to %s yet; it is being dialed", w.name)
}

func leftFinding(w ways) condition.Finding {
	if !w.direct {
		return condition.No(ReasonPeerLeft, "%s does not talk to this cluster through %s any more: to change that, let it use the hub (there: weftctl access HUB --use-as-hub)", w.name, w.through())
	}
	return condition.No(ReasonPeerLeft, "%s has ended the peering; delete this ForeignCluster (weftctl unpeer), or peer again there", w.name)
}

// exchange is what networksFinding looks at.
type exchange struct {
	ways     ways
	spec     *v1alpha1.NeighborSpec
	own      []v1alpha1.OwnNetwork
	channel  channel.Status
	prefixes error // what found no prefix
	inPlace  bool
	waiting  string
	// hub says what becomes of it as a hub, empty if it is none.
	hub string
}

// networksFinding says whether both sides know each other's networks and wire
// prefixes and our gateways hold the rows.
func networksFinding(x exchange) condition.Finding {
	name := x.ways.name
	has, theirs := false, map[int32]bool{}
	for _, row := range x.spec.Rows {
		has = has || ours(row, x.spec.ClusterIndex)
		if row.Side == v1alpha1.RowTheirs && row.OriginIndex == 0 {
			theirs[row.NetworkIndex] = true
		}
	}
	switch {
	case x.channel.Refused != "":
		return condition.No(ReasonRefused, "what %s says of itself is refused: %s; what it said before stands", name, x.channel.Refused)
	case x.prefixes != nil:
		return condition.No(ReasonPrefixes, "%s", x.prefixes)
	case !x.ways.direct:
		return hubNetworksFinding(x)
	case len(x.spec.Networks) == 0:
		return condition.No(ReasonWaitingForPeer, "%s has not told its networks yet", name)
	case !has:
		return condition.No(ReasonWaitingForAgents, "no node of this cluster is a gateway yet")
	case !x.inPlace:
		return condition.No(ReasonWaitingForAgents, "%s", x.waiting)
	case x.channel.PeerRefused != "" && len(theirs) == 0:
		return condition.No(ReasonRefused, "%s refuses what this cluster says of itself: %s", name, x.channel.PeerRefused)
	}
	for _, n := range x.own {
		if !theirs[n.Index] {
			return condition.No(ReasonWaitingForPeer, "%s has not told its wire prefix for our network %s (%s) yet", name, n.Name, n.CIDR)
		}
	}
	return condition.Yes(ReasonReady, "%s from there, %s from here, in place on all gateways%s%s",
		plural(len(x.spec.Networks), "network"), plural(len(x.own), "network"), x.hub, leftOut(x.channel))
}

// leftOut says what of third clusters was not taken of what the peer told.
func leftOut(s channel.Status) string {
	if s.LeftOut == "" {
		return ""
	}
	return "; left out: " + s.LeftOut
}

// hubNetworksFinding is networksFinding of a cluster that only hubs lead to.
func hubNetworksFinding(x exchange) condition.Finding {
	w := x.ways
	switch {
	case len(w.hubs) == 0:
		return condition.No(ReasonNoWay, "no hub leads to %s any more", w.name)
	case len(x.spec.Networks) == 0:
		return condition.No(ReasonWaitingForPeer, "neither %s nor %s has told the networks of %s yet", w.through(), w.name, w.name)
	case len(w.open) == 0:
		return condition.No(ReasonWaitingForPeer, "no link to %s has rows for %s yet: see condition NetworksReady of that ForeignCluster", w.through(), w.name)
	case !w.ready:
		return condition.No(ReasonWaitingForPeer, "%s has not told its wire prefixes yet: see condition NetworksReady of that ForeignCluster", w.through())
	case !x.inPlace:
		return condition.No(ReasonWaitingForAgents, "%s", x.waiting)
	}
	return condition.Yes(ReasonReady, "%s from there, through %s", plural(len(x.spec.Networks), "network"), strings.Join(w.open, ", "))
}

// connectedFinding says what the probes saw; earlier is the verdict of the
// stages before. Probes need rows of both ends: without them, what was read is
// from before a re-peering.
func connectedFinding(w ways, view measure.View, earlier condition.Finding, s channel.Status) condition.Finding {
	if s.Left {
		return leftFinding(w)
	}
	if !w.ready {
		return condition.No(ReasonNotReady, "%s", earlier.Message)
	}
	links, hubs := count(w.paths(view))
	forbidden := w.policy == v1alpha1.PathDirectOnly
	switch {
	case links.up > 0 && (!hubs.active || forbidden):
		return condition.Yes(ReasonLinksUp, "%d of %d links up%s%.1f ms", links.up, links.all, rttMark, float64(links.best)/1000)
	case hubs.up > 0 && !forbidden:
		return condition.Yes(ReasonThroughHub, "%sreached through %s%s%.1f ms", besideLinks(w, links), hubs.via, rttMark, float64(hubs.best)/1000)
	case len(view.Unreadable) > 0:
		node, why := firstUnreadable(view.Unreadable)
		return condition.Unknown(ReasonUnreadable, "what gateway %s measures cannot be read: %s", node, why)
	case earlier.Status != metav1.ConditionTrue && links.probing && hubs.probing:
		return condition.No(ReasonNotReady, "%s", earlier.Message)
	case !w.direct:
		return notThroughHub(w, hubs)
	}
	return noLink(w, links, hubs)
}

// besideLinks says how the direct links are while traffic takes a hub.
func besideLinks(w ways, links tally) string {
	if !w.direct {
		return ""
	}
	return fmt.Sprintf("%d of %d links up, ", links.up, links.all)
}

// noLink says why a cluster with tunnels is not connected.
func noLink(w ways, links, hubs tally) condition.Finding {
	besides := ""
	if hubs.up > 0 {
		besides = fmt.Sprintf(" %s would lead there, but the mode Require of the connection forbids it", hubs.via)
	}
	switch {
	case links.all == 0:
		return condition.No(ReasonProbing, "no gateway of this cluster probes a link to %s yet", w.name)
	case links.probing:
		return condition.No(ReasonProbing, "0 of %d links up: no probe has been answered yet; is the WireGuard port (UDP 51847 by default) open between the gateways?%s", links.all, besides)
	}
	return condition.No(ReasonLinksDown, "0 of %d links up: probes are not answered any more; does the underlay between the gateways work?%s", links.all, besides)
}

// notThroughHub says why a cluster that only hubs lead to is not connected.
func notThroughHub(w ways, hubs tally) condition.Finding {
	switch {
	case hubs.all == 0:
		return condition.No(ReasonProbing, "no gateway of this cluster probes a way to %s through %s yet", w.name, w.through())
	case hubs.probing:
		return condition.No(ReasonProbing, "no probe to %s through %s has been answered yet: does %s use the hub too (there: weftctl access HUB --use-as-hub)?", w.name, w.through(), w.name)
	}
	return condition.No(ReasonLinksDown, "%s is not reached through %s any more: does its link to this cluster work (see that ForeignCluster), and that to %s?", w.name, w.through(), w.name)
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

// pathsOf lists the paths to a cluster as measured, at most maxPaths: direct ones
// first.
func pathsOf(w ways, view measure.View) []v1alpha1.PathStatus {
	var paths []v1alpha1.PathStatus
	found := w.paths(view)
	slices.SortFunc(found, comparePaths)
	for _, p := range found[:min(len(found), maxPaths)] {
		paths = append(paths, v1alpha1.PathStatus{
			Via: p.Via, Gateway: p.OwnGateway, RemoteGateway: p.RemoteGateway, State: p.State,
			RTTMicroseconds: p.RTTMicroseconds, LossPermille: p.LossPermille,
			Active: p.Active, Reason: p.Reason,
			Since: metav1.NewTime(p.Since.Truncate(time.Second)),
		})
	}
	return paths
}

func comparePaths(a, b agent.Path) int {
	rank := func(p agent.Path) string { // direct ones before any hub
		if p.Direct() {
			return ""
		}
		return p.Via
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.OwnGateway, b.OwnGateway), cmp.Compare(a.RemoteGateway, b.RemoteGateway))
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
