package report

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

func clusterProblems(in Input, fcl *v1alpha1.ForeignCluster) []Problem {
	object := "cluster " + fcl.Name
	if fcl.DeletionTimestamp != nil {
		return []Problem{{Object: object, What: "the peering is being taken down", Do: "wait; `weftctl unpeer " + fcl.Name + " --force` if it takes longer than 30 s"}}
	}
	var found []Problem
	if !fcl.Spec.IsAccepted() {
		found = append(found, approvalProblem(fcl, object))
		if len(fcl.Spec.ReachedThrough) == 0 {
			return found // nothing else can be so before
		}
	}
	if problem, ok := conditionProblem(in, fcl, object); ok {
		return append(found, problem)
	}
	found = append(found, pathProblems(in, fcl, object)...)
	if problem, ok := mtuProblem(fcl, object); ok {
		found = append(found, problem)
	}
	return found
}

// approvalProblem says that an introduction waits for an admin of this cluster.
func approvalProblem(fcl *v1alpha1.ForeignCluster, object string) Problem {
	introducers := strings.Join(fcl.Spec.IntroducedBy, ", ")
	return Problem{
		Object: object, What: fmt.Sprintf("not %s: it was introduced by %s and waits for an admin of this cluster to agree to a direct link", v1alpha1.ConditionAccepted, introducers),
		Do: fmt.Sprintf("weftctl access %s --accept; or have the connection deleted where it was made", fcl.Name),
	}
}

// mtuProblem reports packets of full size that do not cross whole, though the
// links are up.
func mtuProblem(fcl *v1alpha1.ForeignCluster, object string) (Problem, bool) {
	sound := meta.FindStatusCondition(fcl.Status.Conditions, v1alpha1.ConditionMTUSound)
	if sound == nil || sound.Status != metav1.ConditionFalse {
		return Problem{}, false
	}
	target := "a gateway of " + fcl.Name
	if record, err := identity.ParseRecord(newest(fcl)); err == nil && len(record.Gateways) > 0 && len(record.Gateways[0].Endpoints) > 0 {
		target = record.Gateways[0].Endpoints[0]
	}
	return Problem{
		Object: object, What: fmt.Sprintf("not %s: %s", sound.Type, sound.Message),
		Do: fmt.Sprintf("on our gateways, find the largest SIZE with which `ping -M do -s SIZE %s` is answered, then `ip link set dev INTERFACE mtu SIZE+28`", target),
	}, true
}

// conditionProblem reports the first condition of a ForeignCluster that is not
// true: the later ones follow from it.
func conditionProblem(in Input, fcl *v1alpha1.ForeignCluster, object string) (Problem, bool) {
	if c := meta.FindStatusCondition(fcl.Status.Conditions, v1alpha1.ConditionConnected); c != nil && (c.Reason == v1alpha1.ReasonDuplicate || c.Reason == v1alpha1.ReasonOwnIdentity) {
		return Problem{Object: object, What: c.Message, Do: "kubectl delete foreigncluster " + fcl.Name}, true
	}
	for _, kind := range []string{
		v1alpha1.ConditionRecordValid, v1alpha1.ConditionChannelReady, v1alpha1.ConditionNetworksReady, v1alpha1.ConditionConnected,
	} {
		condition := meta.FindStatusCondition(fcl.Status.Conditions, kind)
		if condition == nil {
			return Problem{Object: object, What: "weft-controller has not reported " + kind + " yet",
				Do: fmt.Sprintf("kubectl -n %s logs deployment/weft-controller", v1alpha1.SystemNamespace)}, true
		}
		if condition.Status != metav1.ConditionTrue {
			return Problem{Object: object, What: fmt.Sprintf("not %s: %s", kind, condition.Message), Do: conditionAdvice(in, fcl, condition)}, true
		}
	}
	return Problem{}, false
}

func conditionAdvice(in Input, fcl *v1alpha1.ForeignCluster, condition *metav1.Condition) string {
	switch {
	case condition.Reason == v1alpha1.ReasonPeerLeft:
		return fmt.Sprintf("weftctl unpeer %s, or peer again from the other side", fcl.Name)
	case condition.Type == v1alpha1.ConditionRecordValid && ofAnotherIdentity(fcl):
		return fmt.Sprintf("if that cluster was reinstalled or spec.identity is wrong, delete this ForeignCluster (`weftctl unpeer %s`) and apply the record anew: the identity cannot change", fcl.Name)
	case condition.Type == v1alpha1.ConditionRecordValid:
		return fmt.Sprintf("fetch the record again: `weftctl record` on the other side, then kubectl apply; if its identity is another now, `weftctl unpeer %s` first", fcl.Name)
	case condition.Type == v1alpha1.ConditionNetworksReady:
		return "see `weftctl status` on the other side"
	case !fcl.Spec.Direct():
		return hubAdvice(strings.Join(fcl.Spec.ReachedThrough, ", "))
	}
	return dialAdvice(in, fcl)
}

// ofAnotherIdentity reports whether the record is sound but belongs to another
// identity than the ForeignCluster, as it does after a reinstall of the peer.
func ofAnotherIdentity(fcl *v1alpha1.ForeignCluster) bool {
	record, err := identity.ParseRecord(fcl.Spec.Record)
	return err == nil && record.Identity() != fcl.Spec.Identity
}

// dialAdvice says which UDP port must be reachable where, from the records of
// both sides.
func dialAdvice(in Input, fcl *v1alpha1.ForeignCluster) string {
	theirs, ours := dialTargets(newest(fcl)), dialTargets(in.Config.Status.Record)
	switch {
	case theirs == "" && ours == "":
		return "neither side publishes an endpoint: give one `weftctl install --exposure HostPort` or --endpoint"
	case theirs == "":
		return fmt.Sprintf("check that %s reaches us at UDP %s, and that %s knows us: weftctl status there", fcl.Name, ours, fcl.Name)
	}
	return fmt.Sprintf("check that our gateways reach UDP %s, and that %s knows us: weftctl status there", theirs, fcl.Name)
}

// hubAdvice says what makes a path through a hub work.
func hubAdvice(hub string) string {
	return fmt.Sprintf("see that %s is connected, and that it still forwards between us: weftctl status and weftctl access there", hub)
}

func newest(fcl *v1alpha1.ForeignCluster) string {
	if fcl.Status.Record != "" {
		return fcl.Status.Record
	}
	return fcl.Spec.Record
}

func dialTargets(token string) string {
	record, err := identity.ParseRecord(token)
	if err != nil {
		return ""
	}
	var targets []string
	for _, gateway := range record.Gateways {
		for _, endpoint := range gateway.Endpoints {
			targets = append(targets, fmt.Sprintf("%s port %d", endpoint, gateway.Lanes[0].Port))
		}
	}
	return strings.Join(targets, " or ")
}
