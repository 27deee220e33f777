package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/tools/traffic/control"
)

// TrafficNamespace holds the test pods.
const TrafficNamespace = "weft-traffic"

// StartPods runs one traffic pod on each of the nodes and waits until all are
// ready. Pods that run already are kept.
func (c *Cluster) StartPods(ctx context.Context, gateways, plain []string, limit time.Duration) ([]Host, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: TrafficNamespace}}
	if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create namespace %s in cluster %s: %w", TrafficNamespace, c.Name, err)
	}
	hosts := []Host{}
	for _, node := range gateways {
		hosts = append(hosts, Host{Cluster: c, Node: node, Gateway: true})
	}
	for _, node := range plain {
		hosts = append(hosts, Host{Cluster: c, Node: node})
	}
	for _, h := range hosts {
		if err := c.Create(ctx, trafficPod(h.Node)); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create the pod for node %s: %w", h.Node, err)
		}
	}
	for i := range hosts {
		address, err := c.waitPod(ctx, podName(hosts[i].Node), limit)
		if err != nil {
			return nil, err
		}
		hosts[i].Address = address
	}
	return hosts, nil
}

func podName(node string) string { return "traffic-" + node }

// Exec runs a program in the pod by the API server, as `kubectl exec` does, and
// returns its standard output, also with an error.
func (h Host) Exec(ctx context.Context, args ...string) ([]byte, error) {
	lab := h.Cluster.lab
	exec := append([]string{"kubectl", h.Cluster.Name, "exec", "--namespace", TrafficNamespace, podName(h.Node), "--"}, args...)
	return output(ctx, nil, lab.Program("lab"), exec...)
}

func trafficPod(node string) *corev1.Pod {
	grace := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: TrafficNamespace, Name: podName(node)},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: node},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "traffic", Image: TrafficImage, ImagePullPolicy: corev1.PullNever,
				Args: []string{"serve"},
				// A fair share of a busy machine, so that flows keep their rate.
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
				},
				// NET_RAW for ping; NET_ADMIN for receive buffers beyond the default,
				// so that no loss is the receiver's own.
				SecurityContext: &corev1.SecurityContext{
					Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW", "NET_ADMIN"}},
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
						Path: control.PathHealth, Port: intstr.FromInt32(control.DefaultBasePort + control.ControlOffset),
					}},
					PeriodSeconds: 1,
				},
			}},
		},
	}
}

// waitPod waits until a pod is ready and returns its address.
func (c *Cluster) waitPod(ctx context.Context, name string, limit time.Duration) (netip.Addr, error) {
	var pod corev1.Pod
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Namespace: TrafficNamespace, Name: name}, &pod); err != nil {
			return false, nil
		}
		return podReady(&pod), nil
	})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("wait %s for pod %s/%s of cluster %s to be ready: it is %s (%s); see `lab kubectl %s describe pod -n %s %s`",
			limit, TrafficNamespace, name, c.Name, pod.Status.Phase, pod.Status.Message, c.Name, TrafficNamespace, name)
	}
	return netip.ParseAddr(pod.Status.PodIP)
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}
