package fabric

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/nodes"
)

// Reasons of FabricConfig's condition Ready.
const (
	ReasonReady          = "Ready"
	ReasonNetworks       = v1alpha1.ReasonNetworksInvalid
	ReasonEndpoints      = v1alpha1.ReasonEndpointsInvalid
	ReasonPoolExhausted  = v1alpha1.ReasonPoolExhausted
	ReasonNoGateway      = v1alpha1.ReasonNoGateway
	ReasonAgentsNotReady = v1alpha1.ReasonAgentsNotReady
	ReasonError          = "Error"
	ReasonUninstalling   = "Uninstalling"
)

// readiness says in one sentence whether the fabric in this cluster works.
// Nodes whose kubelet is not ready do not count: their agents cannot be asked.
func readiness(config *v1alpha1.FabricConfig, kubeNodes []corev1.Node, fabricNodes []v1alpha1.FabricNode) metav1.Condition {
	alive := ReadyNodes(kubeNodes)
	gateways, ready, waiting := 0, 0, []string(nil)
	total := 0
	for i := range fabricNodes {
		n := &fabricNodes[i]
		if !alive[n.Name] {
			continue
		}
		total++
		if n.Spec.GatewayID != 0 {
			gateways++
		}
		if why := notReady(n); why != "" {
			waiting = append(waiting, n.Name+": "+why)
		} else {
			ready++
		}
	}
	slices.Sort(waiting)
	switch {
	case gateways == 0:
		return condition(false, ReasonNoGateway, noGateway(config))
	case !selects(config.Spec.Gateways.Selector, kubeNodes):
		return condition(false, ReasonNoGateway, noGateway(config)+"; what was a gateway until now stays one")
	case len(waiting) > 0:
		return condition(false, ReasonAgentsNotReady, fmt.Sprintf("%d of %d nodes are ready; %s", ready, total, summary(waiting)))
	case config.Status.Record == "":
		return condition(false, ReasonAgentsNotReady, "no gateway has reported a WireGuard key yet")
	}
	return condition(true, ReasonReady, fmt.Sprintf("%s ready, %s; exports %s",
		plural(total, "node"), plural(gateways, "gateway"), exports(config.Status.Networks)))
}

// ReadyNodes returns the names of the nodes whose kubelet is ready.
func ReadyNodes(kubeNodes []corev1.Node) map[string]bool {
	ready := map[string]bool{}
	for i := range kubeNodes {
		if nodes.Ready(&kubeNodes[i]) {
			ready[kubeNodes[i].Name] = true
		}
	}
	return ready
}

// AgentReady reports whether the node's agent says that its data plane works.
func AgentReady(n *v1alpha1.FabricNode) bool {
	return meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady)
}

func notReady(n *v1alpha1.FabricNode) string {
	if n.Spec.FabricAddress == "" {
		return "has no fabric address yet (is the node network full?)"
	}
	c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		return "its agent has not reported yet (is the weft-agent pod running?)"
	case c.Status != metav1.ConditionTrue:
		return c.Message
	case n.Spec.GatewayID != 0 && len(n.Status.Lanes) == 0:
		return "its agent has not reported a WireGuard key yet"
	}
	return ""
}

// selects reports whether a selector matches any node; an empty one leaves the
// choice to us.
func selects(selector map[string]string, kubeNodes []corev1.Node) bool {
	matches := labels.SelectorFromSet(selector)
	return len(selector) == 0 || slices.ContainsFunc(kubeNodes, func(n corev1.Node) bool { return matches.Matches(labels.Set(n.Labels)) })
}

func noGateway(config *v1alpha1.FabricConfig) string {
	if len(config.Spec.Gateways.Selector) == 0 {
		return "no node is ready, so none can be the gateway"
	}
	return fmt.Sprintf("no ready node has the labels %s of spec.gateways.selector: label a node or change the selector",
		metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: config.Spec.Gateways.Selector}))
}

// summary keeps a condition's message short in a cluster of many nodes.
func summary(items []string) string {
	const shown = 3
	if len(items) <= shown {
		return strings.Join(items, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(items[:shown], "; "), len(items)-shown)
}

func exports(networks []v1alpha1.OwnNetwork) string {
	var texts []string
	for _, n := range networks {
		texts = append(texts, fmt.Sprintf("%s %s", n.Name, n.CIDR))
	}
	return strings.Join(texts, ", ")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func condition(ok bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if ok {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}
}
