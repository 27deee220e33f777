package peering

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/condition"
	"github.com/weft-fabric/weft/controlplane/measure"
)

// linksNamed is how many links a message names at most.
const linksNamed = 8

// mtuFinding says whether packets of full size cross the paths whole. Its second
// result is false while nothing is known: no path is up.
func mtuFinding(w ways, view measure.View) (condition.Finding, bool) {
	if !w.ready {
		return condition.Finding{}, false // what was read is from before a re-peering
	}
	var lost, fragmented []agent.Path
	up := false
	for _, l := range w.paths(view) {
		up = up || l.State == v1alpha1.PathUp
		if l.LargeLost {
			lost = append(lost, l)
		}
		if view.Fragmenting[measure.PathOf(l)] {
			fragmented = append(fragmented, l)
		}
	}
	const cause = "the underlay's MTU between the gateways is smaller than the nodes say"
	const remedy = "lower the MTU of the gateways' interface"
	switch {
	case len(lost) > 0:
		return condition.No(ReasonLargePacketsLost, "packets of full size get lost on %s, small ones do not: %s, or it drops fragments; %s", nameLinks(lost), cause, remedy), true
	case len(fragmented) > 0:
		return condition.No(ReasonOuterFragments, "outer packets on %s arrive in fragments: %s; %s", nameLinks(fragmented), cause, remedy), true
	}
	return condition.Yes(ReasonWhole, "packets of full size cross in one piece"), up
}

// nameLinks as weftctl does: own gateway, remote gateway, and the hub, if it is
// one's.
func nameLinks(links []agent.Path) string {
	slices.SortFunc(links, comparePaths)
	var names []string
	for _, l := range links[:min(len(links), linksNamed)] {
		name := fmt.Sprintf("%d-%d", l.OwnGateway, l.RemoteGateway)
		if !l.Direct() {
			name += " of " + l.Via
		}
		names = append(names, name)
	}
	text := "link " + strings.Join(names, ", ")
	if more := len(links) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// stateMTU fills in condition MTUSound. What gateways that cannot be read said
// last is not taken back.
func stateMTU(fc *v1alpha1.ForeignCluster, w ways, view measure.View) {
	f, known := mtuFinding(w, view)
	switch {
	case known && f.Status == metav1.ConditionFalse:
	case len(view.Unreadable) > 0:
		return
	case !known:
		meta.RemoveStatusCondition(&fc.Status.Conditions, v1alpha1.ConditionMTUSound)
		return
	}
	f.Set(&fc.Status.Conditions, v1alpha1.ConditionMTUSound, fc.Generation)
}
