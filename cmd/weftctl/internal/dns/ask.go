package dns

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/dns/resolver"
)

const (
	// healthPort of weft-dns.
	healthPort = "8081"
	// mostAsked pods of weft-dns; each asks several times.
	mostAsked = 4
)

// Asker has one pod of weft-dns ask the cluster's DNS, as any pod does.
type Asker func(ctx context.Context, pod string) (resolver.Report, error)

// ThroughAPI asks by the API server's proxy to pods.
func ThroughAPI(config *rest.Config) (Asker, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return func(ctx context.Context, pod string) (resolver.Report, error) {
		var report resolver.Report
		data, err := clients.CoreV1().Pods(v1alpha1.SystemNamespace).ProxyGet("http", pod, healthPort, resolver.Path, nil).DoRaw(ctx)
		if err != nil {
			return report, kube.Explain(err, "ask through the API server", "pod "+pod)
		}
		if err := json.Unmarshal(data, &report); err != nil {
			return report, fmt.Errorf("read the report of pod %s: %w", pod, err)
		}
		return report, nil
	}, nil
}

// Answer is what the cluster's DNS tells one pod.
type Answer struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Report is nil if the pod could not be asked.
	Report *resolver.Report `json:"report,omitempty"`
	// Problem is one clause; empty if every answer was right.
	Problem string `json:"problem,omitempty"`
}

// askAll asks the ready pods of weft-dns. Without one there is no answer.
func askAll(ctx context.Context, c client.Reader, ask Asker) ([]Answer, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(v1alpha1.SystemNamespace), client.MatchingLabels{nameLabel: serverName}); err != nil {
		return nil, kube.Explain(err, "list", "pods of weft-dns")
	}
	answers := []Answer{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !ready(pod) || len(answers) == mostAsked {
			continue
		}
		answers = append(answers, answerOf(ctx, pod, ask))
	}
	return answers, nil
}

func answerOf(ctx context.Context, pod *corev1.Pod, ask Asker) Answer {
	answer := Answer{Pod: pod.Name, Node: pod.Spec.NodeName}
	report, err := ask(ctx, pod.Name)
	if err != nil {
		answer.Problem = err.Error()
		return answer
	}
	answer.Report = &report
	if !report.OK() {
		answer.Problem = fmt.Sprintf("%d of %d answers to %s on node %s are right: %s", report.Right, report.Asked, pod.Name, pod.Spec.NodeName, report.Problem)
	}
	return answer
}

func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// pending says in one clause what is wrong with the answers; empty if nothing.
func pending(answers []Answer) string {
	if len(answers) == 0 {
		return "no pod of weft-dns is ready"
	}
	var problems []string
	for _, answer := range answers {
		if answer.Problem != "" {
			problems = append(problems, answer.Problem)
		}
	}
	return strings.Join(problems, "; ")
}
