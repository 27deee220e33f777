package peering

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
)

// stateVerdict fills in what the objects alone say.
func (r *Reconciler) stateVerdict(fc *v1alpha1.ForeignCluster, v Verdict) {
	f := condition.Finding{Status: metav1.ConditionFalse, Reason: v.Reason, Message: v.Message}
	if v.Valid {
		f.Status = metav1.ConditionTrue
	}
	f.Set(&fc.Status.Conditions, v1alpha1.ConditionRecordValid, fc.Generation)
	if v.Record != nil {
		fc.Status.ClusterID = v.Record.ClusterID
		fc.Status.Record = ""
		if v.Token != fc.Spec.Record {
			fc.Status.Record = v.Token
		}
	}
	if v.Duplicate == "" {
		meta.RemoveStatusCondition(&fc.Status.Conditions, ConditionDuplicate)
		return
	}
	condition.Yes(ReasonDuplicate, "%s", duplicateMessage(v)).Set(&fc.Status.Conditions, ConditionDuplicate, fc.Generation)
}

func duplicateMessage(v Verdict) string {
	return fmt.Sprintf("ForeignCluster %s has the same identity and is older: delete one of the two", v.Duplicate)
}

// stateUnusable fills in why there is no peering. One that stood before a bad
// record was written stays as it is, and its links are what was measured.
func (r *Reconciler) stateUnusable(fc *v1alpha1.ForeignCluster, s *snapshot, v Verdict) {
	f := condition.No(v.Reason, "%s", v.Message)
	if v.Duplicate != "" && v.Valid {
		f = condition.No(ReasonDuplicate, "%s", duplicateMessage(v))
	}
	r.stateStanding(fc, s, f)
}

// stateHopeless fills in why there is no Neighbor, or an old one that stands.
func (r *Reconciler) stateHopeless(fc *v1alpha1.ForeignCluster, s *snapshot, err error) {
	f := condition.No(ReasonNoNeighbor, "%s", err)
	f.Set(&fc.Status.Conditions, v1alpha1.ConditionNetworksReady, fc.Generation)
	r.stateStanding(fc, s, f)
}

// stateStanding fills in what the probes see of a Neighbor that stands, else f.
func (r *Reconciler) stateStanding(fc *v1alpha1.ForeignCluster, s *snapshot, f condition.Finding) {
	if s.neighborOf(fc) != nil {
		view, w := r.View(), s.waysTo(fc)
		f = connectedFinding(w, view, f, r.Channels.Status(fc.Spec.Identity))
		stateMTU(fc, w, view)
	}
	f.Set(&fc.Status.Conditions, v1alpha1.ConditionConnected, fc.Generation)
}

// stateNoWay fills in that nothing leads to a cluster.
func stateNoWay(fc *v1alpha1.ForeignCluster) {
	f := condition.No(ReasonNoWay, "no hub leads to %s any more", fc.Name)
	if !fc.Spec.IsAccepted() {
		f = condition.No(ReasonNoWay, "%s is introduced by %s and is not peered with before somebody accepts it: weftctl access %s --accept",
			fc.Name, strings.Join(fc.Spec.IntroducedBy, ", "), fc.Name)
	}
	for _, kind := range []string{v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady, v1alpha1.ConditionConnected} {
		f.Set(&fc.Status.Conditions, kind, fc.Generation)
	}
}

// stateProgress fills in how far the peering has come.
func (r *Reconciler) stateProgress(fc *v1alpha1.ForeignCluster, neighbor *v1alpha1.Neighbor, status channel.Status, x exchange) {
	view := r.View()
	networks := networksFinding(x)
	channelFinding(x.ways, status).Set(&fc.Status.Conditions, v1alpha1.ConditionChannelReady, fc.Generation)
	networks.Set(&fc.Status.Conditions, v1alpha1.ConditionNetworksReady, fc.Generation)
	connectedFinding(x.ways, view, networks, status).Set(&fc.Status.Conditions, v1alpha1.ConditionConnected, fc.Generation)
	stateMTU(fc, x.ways, view)
	fc.Status.Networks = remapped(&neighbor.Spec)
	if paths := pathsOf(x.ways, view); len(paths) > 0 || len(view.Unreadable) == 0 {
		fc.Status.Paths = paths // what cannot be read stays as it was
	}
}

// asHub says what a neighbor forwards as a hub; empty if it is none.
func (s *snapshot) asHub(fc *v1alpha1.ForeignCluster) string {
	reachables := s.told[fc.Name].reachables
	switch {
	case !isHub(fc) || reachables == nil:
		return ""
	case len(reachables) == 0:
		return "; as a hub it forwards to no cluster: there, grant transit to this one (weftctl access NAME --transit all)"
	}
	return "; as a hub it forwards to " + plural(len(reachables), "cluster")
}
