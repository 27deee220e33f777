package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

const maxLogBytes = 8 << 20

// CollectLogs writes, per cluster, the logs of Weft's pods, the fabric's
// objects and the state of every node's network into folder. What cannot be
// had is in the error; the rest is written.
func CollectLogs(ctx context.Context, folder string, clusters ...*Cluster) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the logs of an earlier run: %w", err)
	}
	var errs []error
	for _, c := range clusters {
		if c == nil {
			continue
		}
		path := filepath.Join(folder, c.Name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("keep logs: %w", err)
		}
		errs = append(errs, c.collectPods(ctx, path), c.collectObjects(ctx, path), c.collectNodes(ctx, path))
	}
	return errors.Join(errs...)
}

func (c *Cluster) collectPods(ctx context.Context, folder string) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(v1alpha1.SystemNamespace)); err != nil {
		return fmt.Errorf("list Weft's pods in cluster %s: %w", c.Name, err)
	}
	var errs []error
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			for _, previous := range []bool{false, true} {
				errs = append(errs, c.collectLog(ctx, folder, pod, container.Name, previous))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) collectLog(ctx context.Context, folder string, pod corev1.Pod, container string, previous bool) error {
	name := pod.Name + "-" + container
	if previous {
		name += "-previous"
	}
	limit := int64(maxLogBytes)
	stream, err := c.Logs.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, LimitBytes: &limit, Timestamps: true,
	}).Stream(ctx)
	if err != nil {
		if previous {
			return nil // most containers have no earlier run
		}
		return fmt.Errorf("read the log of %s: %w", name, err)
	}
	defer stream.Close()
	file, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		return fmt.Errorf("keep the log of %s: %w", name, err)
	}
	defer file.Close()
	if _, err := io.Copy(file, io.LimitReader(stream, maxLogBytes)); err != nil {
		return fmt.Errorf("keep the log of %s: %w", name, err)
	}
	return nil
}

// collectObjects never reads Secrets.
func (c *Cluster) collectObjects(ctx context.Context, folder string) error {
	var errs []error
	for name, list := range map[string]client.ObjectList{
		"fabricconfigs": &v1alpha1.FabricConfigList{}, "fabricnodes": &v1alpha1.FabricNodeList{},
		"foreignclusters": &v1alpha1.ForeignClusterList{}, "neighbors": &v1alpha1.NeighborList{},
		"prefixclaims": &v1alpha1.PrefixClaimList{}, "foreignclusterconnections": &v1alpha1.ForeignClusterConnectionList{},
		"serviceexports": &mcsv1beta1.ServiceExportList{}, "serviceimports": &mcsv1beta1.ServiceImportList{},
		"services": &corev1.ServiceList{}, "endpointslices": &discoveryv1.EndpointSliceList{},
		"pods": &corev1.PodList{}, "events": &corev1.EventList{},
	} {
		if err := c.List(ctx, list); err != nil {
			errs = append(errs, fmt.Errorf("list %s in cluster %s: %w", name, c.Name, err))
			continue
		}
		data, err := yaml.Marshal(list)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".yaml"), data, 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *Cluster) collectNodes(ctx context.Context, folder string) error {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list the nodes of cluster %s: %w", c.Name, err)
	}
	for _, node := range nodes.Items {
		var all []byte
		for _, args := range [][]string{
			{"ip", "-s", "-d", "address"}, {"ip", "rule"}, {"ip", "route", "show", "table", "all"},
			{"nft", "list", "ruleset"}, {"find", "/sys/fs/bpf", "/run/weft", "/var/lib/weft"},
		} {
			out, err := c.lab.Exec(ctx, node.Name, nil, args...)
			if err != nil {
				out = append(out, err.Error()...) // part of the evidence
			}
			all = append(all, fmt.Sprintf("### %v\n%s\n", args, out)...)
		}
		if err := os.WriteFile(filepath.Join(folder, "node-"+node.Name+".txt"), all, 0o644); err != nil {
			return fmt.Errorf("keep the state of node %s: %w", node.Name, err)
		}
	}
	return nil
}
