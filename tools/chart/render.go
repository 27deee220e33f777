package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Manifests are the chart's objects. CRDs must exist and be established before
// Objects, which are in the order in which they can be applied one by one.
type Manifests struct {
	CRDs    []*unstructured.Unstructured
	Objects []*unstructured.Unstructured
}

// Render fills the chart's templates with its default values overlaid by
// values, for a cluster of the given Kubernetes version (such as "v1.37.2").
func Render(values map[string]any, kubernetesVersion string) (Manifests, error) {
	loaded, err := Load()
	if err != nil {
		return Manifests{}, err
	}
	if err := checkVersion(loaded, kubernetesVersion); err != nil {
		return Manifests{}, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(kubernetesVersion)
	if err != nil {
		return Manifests{}, fmt.Errorf("read Kubernetes version %q: %w", kubernetesVersion, err)
	}
	capabilities.KubeVersion = *version
	release := chartutil.ReleaseOptions{Name: loaded.Name(), Namespace: v1alpha1.SystemNamespace, IsInstall: true, Revision: 1}
	full, err := chartutil.ToRenderValues(loaded, values, release, capabilities)
	if err != nil {
		return Manifests{}, fmt.Errorf("merge values into the chart's: %w", err)
	}
	rendered, err := engine.Render(loaded, full)
	if err != nil {
		return Manifests{}, fmt.Errorf("render chart: %w", err)
	}
	var m Manifests
	for _, crd := range loaded.CRDObjects() {
		if m.CRDs, err = decode(m.CRDs, crd.Filename, string(crd.File.Data)); err != nil {
			return Manifests{}, err
		}
	}
	for name, text := range rendered {
		if path.Ext(name) != ".yaml" {
			continue
		}
		if m.Objects, err = decode(m.Objects, name, text); err != nil {
			return Manifests{}, err
		}
	}
	slices.SortFunc(m.CRDs, compare)
	slices.SortFunc(m.Objects, compare)
	return m, nil
}

func checkVersion(loaded *helmchart.Chart, version string) error {
	if chartutil.IsCompatibleRange(loaded.Metadata.KubeVersion, version) {
		return nil
	}
	return fmt.Errorf("the cluster runs Kubernetes %s but Weft needs %s: upgrade the cluster first",
		version, strings.TrimSuffix(loaded.Metadata.KubeVersion, "-0"))
}

func decode(into []*unstructured.Unstructured, name, text string) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return into, nil
		} else if err != nil {
			return nil, fmt.Errorf("read rendered %s: %w", name, err)
		}
		if len(object.Object) > 0 {
			into = append(into, object)
		}
	}
}

// installOrder ranks kinds: what others refer to comes first. The admission
// policies precede the workloads, so that no agent ever writes unchecked, and
// FabricConfig, which sets everything going, comes last.
var installOrder = []string{
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "Service", "DaemonSet", "Deployment", "FabricConfig",
}

func compare(a, b *unstructured.Unstructured) int {
	if byKind := rank(a.GetKind()) - rank(b.GetKind()); byKind != 0 {
		return byKind
	}
	if byNamespace := strings.Compare(a.GetNamespace(), b.GetNamespace()); byNamespace != 0 {
		return byNamespace
	}
	return strings.Compare(a.GetName(), b.GetName())
}

func rank(kind string) int { return slices.Index(installOrder, kind) }
