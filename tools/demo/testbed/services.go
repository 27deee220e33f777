package testbed

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/tools/traffic/control"
)

const (
	// ServiceName of the echo service in TrafficNamespace.
	ServiceName = "echo"
	// backends is the Deployment behind it.
	backends = "echo-backends"
	// serves is the label that the Service selects pods by.
	serves = "weft-traffic/serves"
)

// ServiceDomain is the service's name as clients in every cluster use it.
const ServiceDomain = ServiceName + "." + TrafficNamespace + ".svc.clusterset.local"

// EchoService is the manifest of a Deployment, its pods spread over the nodes,
// and the Service in front of it.
func EchoService(replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {pool: %[2]s}}
  template:
    metadata: {labels: {pool: %[2]s, %[4]s: %[5]s}}
    spec:
      terminationGracePeriodSeconds: 10
      tolerations: [{operator: Exists}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {pool: %[2]s}}}
      containers:
      - name: traffic
        image: %[6]s
        imagePullPolicy: Never
        args: [serve]
        lifecycle: {preStop: {sleep: {seconds: 4}}} # serves on until nobody calls it any more
        readinessProbe: {httpGet: {path: %[7]s, port: %[8]d}, periodSeconds: 1}
        securityContext: {capabilities: {add: [NET_RAW, NET_ADMIN]}}
---
apiVersion: v1
kind: Service
metadata: {namespace: %[1]s, name: %[5]s}
spec:
  selector: {%[4]s: %[5]s}
  ports:
  - {name: echo, port: %[9]d}
`, TrafficNamespace, backends, replicas, serves, ServiceName, TrafficImage, control.PathHealth,
		control.DefaultBasePort+control.ControlOffset, control.DefaultBasePort+control.EchoOffset)
}

// ServiceExport is the manifest of an export, as a user writes it.
func ServiceExport(name string) string {
	return fmt.Sprintf(`apiVersion: %s
kind: %s
metadata:
  namespace: %s
  name: %s
`, mcsv1beta1.GroupVersion, mcsv1beta1.ServiceExportKindName, TrafficNamespace, name)
}

// Unexport deletes an export.
func (c *Cluster) Unexport(ctx context.Context, name string) error {
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: TrafficNamespace, Name: name}}
	if err := c.Delete(ctx, export); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete serviceexport/%s of cluster %s: %w", name, c.Name, err)
	}
	return nil
}

// WaitExport waits until an export has a condition with a status and a reason,
// which may be empty for any, and returns the condition.
func (c *Cluster) WaitExport(ctx context.Context, name string, kind mcsv1beta1.ServiceExportConditionType, status metav1.ConditionStatus, reason string, limit time.Duration) (metav1.Condition, error) {
	var export mcsv1beta1.ServiceExport
	var found metav1.Condition
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Namespace: TrafficNamespace, Name: name}, &export); err != nil {
			return false, nil
		}
		now := meta.FindStatusCondition(export.Status.Conditions, string(kind))
		if now == nil || now.Status != status || (reason != "" && now.Reason != reason) {
			return false, nil
		}
		found = *now
		return true, nil
	})
	if err != nil {
		return found, fmt.Errorf("wait %s for serviceexport/%s of cluster %s to have %s=%s %s: it has %v", limit, name, c.Name, kind, status, reason, export.Status.Conditions)
	}
	return found, nil
}

// WaitImport waits until the service is imported, and returns its address.
func (c *Cluster) WaitImport(ctx context.Context, limit time.Duration) (netip.Addr, error) {
	var imported mcsv1beta1.ServiceImport
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: TrafficNamespace, Name: ServiceName}, &imported)
		return err == nil && len(imported.Spec.IPs) > 0, nil
	})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("wait %s for serviceimport/%s of cluster %s to have an address: it has conditions %v (try `weftctl access --kubeconfig %s`)",
			limit, ServiceName, c.Name, imported.Status.Conditions, c.Kubeconfig)
	}
	return netip.ParseAddr(imported.Spec.IPs[0])
}

// Scale sets the number of pods of a Deployment.
func (c *Cluster) Scale(ctx context.Context, namespace, name string, replicas int) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	if err := c.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("scale deployment/%s of cluster %s: %w", name, c.Name, err)
	}
	return nil
}

// ScaleBackends sets the number of the service's own pods.
func (c *Cluster) ScaleBackends(ctx context.Context, replicas int) error {
	return c.Scale(ctx, TrafficNamespace, backends, replicas)
}

// Serve makes the traffic pod of a node a backend of the service, or no longer.
func (h Host) Serve(ctx context.Context, serve bool) error {
	value := "null"
	if serve {
		value = fmt.Sprintf("%q", ServiceName)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: TrafficNamespace, Name: podName(h.Node)}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, serves, value)
	if err := h.Cluster.Patch(ctx, pod, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("label pod %s of cluster %s: %w", pod.Name, h.Cluster.Name, err)
	}
	return nil
}

// RemapAll translates addresses of a foreign cluster into this cluster's view.
func (c *Cluster) RemapAll(ctx context.Context, foreign string, addresses []netip.Addr) ([]netip.Addr, error) {
	moved := make([]netip.Addr, len(addresses))
	for i, address := range addresses {
		var err error
		if moved[i], err = c.Remap(ctx, foreign, address); err != nil {
			return nil, err
		}
	}
	return moved, nil
}

// EnableDNS has the cluster's DNS forward clusterset.local, and waits until it
// does.
func (c *Cluster) EnableDNS(ctx context.Context) error {
	return follow(ctx, c.lab.Progress, c.lab.Program("weftctl"), "dns", "enable", "--kubeconfig", c.Kubeconfig)
}

// GrantServices lets a foreign cluster see this one's exports, and takes its.
func (c *Cluster) GrantServices(ctx context.Context, foreign string) error {
	_, err := c.Weftctl(ctx, "access", foreign, "--export-services", "All", "--import-services", "All")
	return err
}
