package testbed

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// metricsPort of the agents.
const metricsPort = "9813"

// Transit is what a cluster has forwarded so far between its neighbors:
// packets of payload by the neighbor that they came from.
type Transit map[string]uint64

// Total packets.
func (t Transit) Total() uint64 {
	var sum uint64
	for _, packets := range t {
		sum += packets
	}
	return sum
}

// Transit reads the counters of all of the cluster's gateways, as Prometheus
// does. They live in the kernel, so an agent's restart does not reset them.
func (c *Cluster) Transit(ctx context.Context) (Transit, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(v1alpha1.SystemNamespace)); err != nil {
		return nil, fmt.Errorf("list the agents of cluster %s: %w", c.Name, err)
	}
	total := Transit{}
	for _, pod := range pods.Items {
		if !strings.HasPrefix(pod.Name, Agent+"-") || pod.DeletionTimestamp != nil {
			continue
		}
		text, err := c.Logs.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, metricsPort, "/metrics", nil).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the metrics of %s in cluster %s: %w", pod.Name, c.Name, err)
		}
		if err := total.add(string(text)); err != nil {
			return nil, fmt.Errorf("read the metrics of %s in cluster %s: %w", pod.Name, c.Name, err)
		}
	}
	return total, nil
}

// add sums up the lines of one agent's metrics:
//
//	weft_packets_total{direction="lane_ingress",neighbor="a",reason="transit"} 7
func (t Transit) add(metrics string) error {
	for line := range strings.Lines(metrics) {
		labels, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(labels, "weft_packets_total{") ||
			!strings.Contains(labels, `direction="lane_ingress"`) || !strings.Contains(labels, `reason="transit"`) {
			continue
		}
		_, rest, _ := strings.Cut(labels, `neighbor="`)
		neighbor, _, _ := strings.Cut(rest, `"`)
		packets, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("read %q: %w", line, err)
		}
		t[neighbor] += uint64(packets)
	}
	return nil
}
