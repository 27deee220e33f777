package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Workloads of Weft.
const (
	Agent      = "weft-agent"
	Controller = "weft-controller"
	DNS        = "weft-dns"
)

// Process is a container's first process as the machine sees it.
type Process struct {
	Pod  string
	Node string
	PID  int
}

func (p Process) String() string { return fmt.Sprintf("%s on %s (pid %d)", p.Pod, p.Node, p.PID) }

// Kill ends the process with SIGKILL.
func (p Process) Kill() error {
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p, err)
	}
	return nil
}

// Hang stops the process and leaves it there, with its sockets: what comes in for
// it gets neither an answer nor an error.
func (p Process) Hang() error {
	if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s: %w", p, err)
	}
	return nil
}

// Processes finds the running processes of a workload, sorted by node; node
// may be empty for all.
func (c *Cluster) Processes(ctx context.Context, workload, node string) ([]Process, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(v1alpha1.SystemNamespace)); err != nil {
		return nil, fmt.Errorf("list the pods of %s in cluster %s: %w", workload, c.Name, err)
	}
	var found []Process
	for _, pod := range pods.Items {
		if !strings.HasPrefix(pod.Name, workload+"-") || (node != "" && pod.Spec.NodeName != node) {
			continue
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Running == nil {
				continue
			}
			pid, err := firstProcess(containerID(status.ContainerID))
			if err != nil {
				return nil, fmt.Errorf("find the process of pod %s in cluster %s: %w", pod.Name, c.Name, err)
			}
			if pid != 0 {
				found = append(found, Process{Pod: pod.Name, Node: pod.Spec.NodeName, PID: pid})
			}
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return strings.Compare(a.Node+a.Pod, b.Node+b.Pod) })
	return found, nil
}

// containerID strips the runtime's scheme: containerd://<id>.
func containerID(status string) string {
	_, id, _ := strings.Cut(status, "://")
	return id
}

// firstProcess finds the oldest process in a container's cgroup; 0 if it has
// none. All nodes share the machine's process ids.
func firstProcess(id string) (int, error) {
	if id == "" {
		return 0, nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	oldest := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), id) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && (oldest == 0 || pid < oldest) {
			oldest = pid
		}
	}
	return oldest, nil
}

// Replace ends a process with SIGKILL and waits until its workload runs again in
// another process on the same node; it returns that.
func (c *Cluster) Replace(ctx context.Context, workload string, old Process, limit time.Duration) (Process, error) {
	if err := old.Kill(); err != nil {
		return Process{}, err
	}
	return c.AwaitReplaced(ctx, workload, old, limit)
}

// AwaitReplaced waits until a workload runs in another process in place of an old
// one, on the same node, and returns that.
func (c *Cluster) AwaitReplaced(ctx context.Context, workload string, old Process, limit time.Duration) (Process, error) {
	var fresh Process
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		processes, err := c.Processes(ctx, workload, old.Node)
		if err != nil {
			return false, nil
		}
		for _, p := range processes {
			if p.PID != old.PID {
				fresh = p
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return Process{}, fmt.Errorf("wait %s for another process in place of %s: %w", limit, old, err)
	}
	return fresh, nil
}

// AwaitReady waits until so many pods of a workload are ready, no more and no
// fewer: a Service sends to those.
func (c *Cluster) AwaitReady(ctx context.Context, workload string, count int, limit time.Duration) error {
	ready := 0
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(v1alpha1.SystemNamespace), client.MatchingLabels{"app.kubernetes.io/name": workload}); err != nil {
			return false, nil
		}
		ready = 0
		for i := range pods.Items {
			if podReady(&pods.Items[i]) {
				ready++
			}
		}
		return ready == count, nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for %d pods of %s in cluster %s to be ready: %d are", limit, count, workload, c.Name, ready)
	}
	return nil
}

// Leads waits until the controller has renewed its Lease after a time: only
// then does it run, and reach its API server.
func (c *Cluster) Leads(ctx context.Context, after time.Time, limit time.Duration) error {
	var lease coordinationv1.Lease
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: Controller}, &lease)
		return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(after), nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for the controller of cluster %s to lead (its Lease was renewed at %v): %w", limit, c.Name, lease.Spec.RenewTime, err)
	}
	return nil
}

// RestartDaemonSet replaces every pod of a DaemonSet, as `kubectl rollout
// restart` does, and waits for the last.
func (c *Cluster) RestartDaemonSet(ctx context.Context, name string, limit time.Duration) error {
	key := client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: name}
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339Nano))
	set := &appsv1.DaemonSet{}
	set.Namespace, set.Name = key.Namespace, key.Name
	if err := c.Patch(ctx, set, client.RawPatch("application/strategic-merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("restart daemonset/%s of cluster %s: %w", name, c.Name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, key, set); err != nil {
			return false, nil
		}
		s := set.Status
		return s.ObservedGeneration >= set.Generation && s.DesiredNumberScheduled > 0 &&
			s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberAvailable == s.DesiredNumberScheduled &&
			s.CurrentNumberScheduled == s.DesiredNumberScheduled, nil
	})
	if err != nil {
		return fmt.Errorf("wait %s for the restart of daemonset/%s of cluster %s: %d of %d pods are new and available",
			limit, name, c.Name, min(set.Status.UpdatedNumberScheduled, set.Status.NumberAvailable), set.Status.DesiredNumberScheduled)
	}
	return nil
}
