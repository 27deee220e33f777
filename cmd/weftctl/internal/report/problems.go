package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/install"
)

// lossWorthTelling is the share of unanswered probes, in permille, from which
// a link that is up counts as a problem.
const lossWorthTelling = 20

// settlingSeconds is how long a link must have been up before its loss tells
// something: the status is written every 30 s, and until then the loss may
// count probes from before the link was up.
const settlingSeconds = 60

// lossTells reports whether the loss of a link counts only probes of the time
// since which it is up. Zero seconds may also mean that the time is not known.
func lossTells(state v1alpha1.PathState, sinceSeconds int64) bool {
	return state == v1alpha1.PathUp && sinceSeconds > settlingSeconds
}

// sinceSeconds is for how long the path has had its state, 0 if not known.
func sinceSeconds(path v1alpha1.PathStatus, now time.Time) int64 {
	if path.Since.IsZero() {
		return 0
	}
	return int64(max(0, now.Sub(path.Since.Time)).Seconds())
}

// problems lists what is wrong, causes before consequences.
func problems(in Input) []Problem {
	nodes := nodeProblems(in)
	found := workloadProblems(in)
	// The config's condition only sums up what the nodes' own say better.
	for _, problem := range configProblems(in) {
		if problem.Do != adviceFor(agentsNotReady) || len(nodes) == 0 {
			found = append(found, problem)
		}
	}
	found = append(found, nodes...)
	for i := range in.Clusters {
		found = append(found, clusterProblems(in, &in.Clusters[i])...)
	}
	return found
}

func workloadProblems(in Input) []Problem {
	var found []Problem
	tell := func(kind, name, what string) {
		found = append(found, Problem{
			Object: kind + " " + name, What: what,
			Do: fmt.Sprintf("kubectl -n %s describe pods -l app.kubernetes.io/name=%s", v1alpha1.SystemNamespace, name),
		})
	}
	for _, d := range in.Deployments {
		if d.Status.AvailableReplicas == 0 {
			tell("Deployment", d.Name, "it does not run, so nothing new is learned; what works goes on working"+in.Trouble(d.Spec.Selector))
		}
	}
	for _, d := range in.DaemonSets {
		if missing := unready(d); missing > 0 {
			tell("DaemonSet", d.Name, fmt.Sprintf("it is not ready on %d of %d nodes%s", missing, d.Status.DesiredNumberScheduled, in.Trouble(d.Spec.Selector)))
		}
	}
	return found
}

func unready(d appsv1.DaemonSet) int32 {
	ready, want := install.Rollout(d)
	return max(0, want-ready)
}

func configProblems(in Input) []Problem {
	object := "FabricConfig " + v1alpha1.FabricConfigName
	ready := meta.FindStatusCondition(in.Config.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case in.Config.DeletionTimestamp != nil:
		return []Problem{{Object: object, What: "an uninstall is under way", Do: "let `weftctl uninstall` end"}}
	case ready == nil:
		return []Problem{{Object: object, What: "weft-controller has not looked at it yet",
			Do: fmt.Sprintf("kubectl -n %s logs deployment/weft-controller", v1alpha1.SystemNamespace)}}
	case ready.Status != metav1.ConditionTrue:
		return []Problem{{Object: object, What: ready.Message, Do: adviceFor(ready.Reason)}}
	}
	return nil
}

// agentsNotReady is the reason that FabricConfig gives when nodes are to blame.
const agentsNotReady = "AgentsNotReady"

// adviceFor a reason of FabricConfig's condition Ready.
func adviceFor(reason string) string {
	switch reason {
	case "NetworksInvalid":
		return "weftctl install --pod-cidr CIDR"
	case "EndpointsInvalid":
		return "weftctl install --endpoint ADDRESS, without port"
	case "PoolExhausted":
		return "add a range to spec.pools: kubectl edit fabricconfig default"
	case "NoGateway":
		return "label a node, or name another label: weftctl install --gateway-selector KEY=VALUE"
	case agentsNotReady:
		return fmt.Sprintf("kubectl -n %s logs daemonset/weft-agent", v1alpha1.SystemNamespace)
	}
	return fmt.Sprintf("kubectl -n %s logs deployment/weft-controller", v1alpha1.SystemNamespace)
}

func nodeProblems(in Input) []Problem {
	var found []Problem
	for i := range in.Nodes {
		node := &in.Nodes[i]
		ready := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady)
		what := ""
		switch {
		case ready == nil:
			what = "its agent has not reported"
		case ready.Status != metav1.ConditionTrue:
			what = ready.Message
		default:
			what = lagging(node, in.Neighbors)
		}
		if what != "" {
			found = append(found, Problem{
				Object: "node " + node.Name, What: what,
				Do: fmt.Sprintf("kubectl -n %s logs %s", v1alpha1.SystemNamespace, agentOn(in, node.Name)),
			})
		}
	}
	return found
}

// agentOn returns the agent's pod on the node, for kubectl.
func agentOn(in Input, node string) string {
	for _, pod := range in.Pods {
		if pod.Spec.NodeName == node && pod.Labels["app.kubernetes.io/name"] == "weft-agent" && pod.DeletionTimestamp == nil {
			return pod.Name
		}
	}
	return "daemonset/weft-agent"
}

// lagging names the neighbors whose newest rows the node has not applied.
func lagging(node *v1alpha1.FabricNode, neighbors []v1alpha1.Neighbor) string {
	var behind []string
	for _, neighbor := range neighbors {
		held := slices.ContainsFunc(node.Status.Applied, func(a v1alpha1.AppliedNeighbor) bool {
			return a.Name == neighbor.Name && a.UID == neighbor.UID && a.Generation >= neighbor.Generation
		})
		if !held {
			behind = append(behind, neighbor.Name)
		}
	}
	if len(behind) == 0 {
		return ""
	}
	return "it has not applied the newest state of " + strings.Join(behind, ", ")
}

func clusterProblems(in Input, fcl *v1alpha1.ForeignCluster) []Problem {
	object := "cluster " + fcl.Name
	if fcl.DeletionTimestamp != nil {
		return []Problem{{Object: object, What: "the peering is being taken down", Do: "wait; `weftctl unpeer " + fcl.Name + " --force` if it takes longer than 30 s"}}
	}
	if problem, ok := conditionProblem(in, fcl, object); ok {
		return []Problem{problem}
	}
	var found []Problem
	for _, path := range fcl.Status.Paths {
		link := fmt.Sprintf("%s, link %d-%d", object, path.Gateway, path.RemoteGateway)
		switch {
		case path.State == v1alpha1.PathDown:
			found = append(found, Problem{Object: link, What: "probes are not answered", Do: dialAdvice(in, fcl)})
		case path.LossPermille >= lossWorthTelling && lossTells(path.State, sinceSeconds(path, in.Now)):
			found = append(found, Problem{
				Object: link, What: fmt.Sprintf("%.1f %% of the probes are lost", float64(path.LossPermille)/10),
				Do: "look for loss between the gateways outside the tunnel, such as a full uplink",
			})
		}
	}
	if problem, ok := mtuProblem(fcl, object); ok {
		found = append(found, problem)
	}
	return found
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
	if c := meta.FindStatusCondition(fcl.Status.Conditions, v1alpha1.ConditionConnected); c != nil && (c.Reason == "Duplicate" || c.Reason == "OwnIdentity") {
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
	case condition.Reason == "PeerLeft":
		return fmt.Sprintf("weftctl unpeer %s, or peer again from the other side", fcl.Name)
	case condition.Type == v1alpha1.ConditionRecordValid && ofAnotherIdentity(fcl):
		return fmt.Sprintf("if that cluster was reinstalled or spec.identity is wrong, delete this ForeignCluster (`weftctl unpeer %s`) and apply the record anew: the identity cannot change", fcl.Name)
	case condition.Type == v1alpha1.ConditionRecordValid:
		return fmt.Sprintf("fetch the record again: `weftctl record` on the other side, then kubectl apply; if its identity is another now, `weftctl unpeer %s` first", fcl.Name)
	case condition.Type == v1alpha1.ConditionNetworksReady:
		return "see `weftctl status` on the other side"
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
