package report

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/install"
)

// problems lists what is wrong, causes before consequences.
func problems(in Input) []Problem {
	nodes := nodeProblems(in)
	found := workloadProblems(in)
	// The config's condition only sums up what the nodes' own say better.
	for _, problem := range configProblems(in) {
		if problem.Do != adviceFor(v1alpha1.ReasonAgentsNotReady) || len(nodes) == 0 {
			found = append(found, problem)
		}
	}
	found = append(found, nodes...)
	for i := range in.Clusters {
		found = append(found, clusterProblems(in, &in.Clusters[i])...)
	}
	for i := range in.Connections {
		if problem, ok := connectionProblem(in, &in.Connections[i]); ok {
			found = append(found, problem)
		}
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
		switch {
		case d.Spec.Replicas != nil && *d.Spec.Replicas == 0:
			found = append(found, Problem{Object: "Deployment " + d.Name, What: "it is scaled to 0, so " + without(d.Name),
				Do: fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", v1alpha1.SystemNamespace, d.Name)})
		case d.Status.AvailableReplicas == 0:
			tell("Deployment", d.Name, "it does not run, so "+without(d.Name)+in.Trouble(d.Spec.Selector))
		case d.Status.UpdatedReplicas == d.Status.Replicas && d.Status.AvailableReplicas < d.Status.Replicas:
			tell("Deployment", d.Name, fmt.Sprintf("%d of its %d pods run%s", d.Status.AvailableReplicas, d.Status.Replicas, in.Trouble(d.Spec.Selector)))
		case !install.RolledOut(d):
			tell("Deployment", d.Name, "its rollout is not complete, so a former version goes on running"+in.Trouble(d.Spec.Selector))
		}
	}
	for _, d := range in.DaemonSets {
		if ready, want := install.Rollout(d); ready < want {
			tell("DaemonSet", d.Name, fmt.Sprintf("it is not ready on %d of %d nodes%s", want-ready, want, in.Trouble(d.Spec.Selector)))
		}
	}
	return found
}

const controller = "weft-controller"

// without says what a workload's absence means.
func without(name string) string {
	if name == "weft-dns" {
		return "pods find no services of other clusters by name; all else works"
	}
	return "nothing new is learned, not even whether clusters are reached; tunnels and programs in the kernel go on"
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

// adviceFor a reason of FabricConfig's condition Ready.
func adviceFor(reason string) string {
	switch reason {
	case v1alpha1.ReasonNetworksInvalid:
		return "weftctl install --pod-cidr CIDR"
	case v1alpha1.ReasonEndpointsInvalid:
		return "weftctl install --endpoint ADDRESS, without port"
	case v1alpha1.ReasonPoolExhausted:
		return "add a range to spec.pools: kubectl edit fabricconfig default"
	case v1alpha1.ReasonNoGateway:
		return "label a node, or name another label: weftctl install --gateway-selector KEY=VALUE"
	case v1alpha1.ReasonAgentsNotReady:
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
