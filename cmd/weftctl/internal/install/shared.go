package install

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// Other programs use the CRDs of multi-cluster services too. Those that are there
// already are left alone; ours carry a label, by which an uninstall knows them.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedByWeft  = "weft"
)

// shared reports whether a CRD is one that others may have installed.
func shared(crd *unstructured.Unstructured) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	return group == mcsv1beta1.GroupName
}

// foreign returns a CRD of that name that something else installed, nil if there
// is none.
func foreign(ctx context.Context, c client.Reader, object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	if !shared(object) {
		return nil, nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.Get(ctx, client.ObjectKeyFromObject(object), crd)
	switch {
	case kube.Missing(err):
		return nil, nil
	case err != nil:
		return nil, kube.Explain(err, "read", "CRD "+object.GetName())
	case crd.Labels[managedByLabel] == managedByWeft:
		return nil, nil
	}
	return crd, nil
}

// applyCRD applies a CRD unless something else has installed it.
func applyCRD(ctx context.Context, c client.Client, object *unstructured.Unstructured, progress wait.Progress) error {
	there, err := foreign(ctx, c, object)
	if err != nil {
		return err
	}
	if there != nil {
		progress("leaving CRD " + there.Name + " as it is, which something else has installed" + outdated(there))
		return nil
	}
	if shared(object) {
		object = object.DeepCopy()
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[managedByLabel] = managedByWeft
		object.SetLabels(labels)
	}
	return apply(ctx, c, object)
}

// outdated says that a CRD lacks the version that Weft speaks.
func outdated(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Name == mcsv1beta1.GroupVersion.Version && v.Served {
			return ""
		}
	}
	return fmt.Sprintf("; it does not serve %s, without which no service is shared between clusters: upgrade it", mcsv1beta1.GroupVersion.Version)
}

// ownCRDs leaves out those that something else has installed.
func ownCRDs(ctx context.Context, c client.Reader, crds []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var own []*unstructured.Unstructured
	for _, object := range crds {
		there, err := foreign(ctx, c, object)
		if err != nil {
			return nil, err
		}
		if there == nil {
			own = append(own, object)
		}
	}
	return own, nil
}

// unused leaves out the shared CRDs that would take objects with them that Weft
// did not make, and names them: a user's ServiceExports outlive Weft.
func unused(ctx context.Context, c client.Reader, crds []*unstructured.Unstructured) (left []*unstructured.Unstructured, used []string, err error) {
	for _, crd := range crds {
		keep := false
		if shared(crd) {
			if keep, err = holdsOthers(ctx, c, crd); err != nil {
				return nil, nil, err
			}
		}
		if keep {
			used = append(used, crd.GetName())
			continue
		}
		left = append(left, crd)
	}
	return left, used, nil
}

// holdsOthers reports whether there are objects of a shared CRD that Weft did not
// make.
func holdsOthers(ctx context.Context, c client.Reader, crd *unstructured.Unstructured) (bool, error) {
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: mcsv1beta1.GroupName, Version: mcsv1beta1.GroupVersion.Version, Kind: kind + "List"})
	others, err := labels.NewRequirement(managedByLabel, selection.NotEquals, []string{managedByWeft})
	if err != nil {
		return false, fmt.Errorf("select %ss: %w", kind, err)
	}
	err = c.List(ctx, list, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*others)}, client.Limit(1))
	if kube.Missing(err) {
		return false, nil
	}
	return len(list.Items) > 0, kube.Explain(err, "list", kind+"s")
}

// removeImports deletes what weft-controller made of other clusters' services: it
// does not run any more. What belongs to a ServiceImport would go with it, but not
// before Kubernetes' garbage collector has its turn.
func removeImports(ctx context.Context, c client.Client, progress wait.Progress) error {
	said := false
	for _, kind := range []schema.GroupVersionKind{
		{Group: mcsv1beta1.GroupName, Version: mcsv1beta1.GroupVersion.Version, Kind: mcsv1beta1.ServiceImportKindName},
		{Version: "v1", Kind: "Service"},
		{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list, client.MatchingLabels{managedByLabel: managedByWeft}, client.HasLabels{mcsv1beta1.LabelServiceName})
		if kube.Missing(err) {
			continue
		}
		if err != nil {
			return kube.Explain(err, "list", kind.Kind+"s")
		}
		for i := range list.Items {
			if !said {
				progress("removing the services of other clusters")
				said = true
			}
			if err := remove(ctx, c, &list.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
