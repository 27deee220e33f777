package services

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/controlplane/channel"
)

// apply makes the objects of a service what they shall be.
func (r *Importer) apply(ctx context.Context, name types.NamespacedName, merged Import, existing []discoveryv1.EndpointSlice, sources []share) error {
	i := &mcsv1beta1.ServiceImport{}
	err := r.Client.Get(ctx, name, i)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read service import %s: %w", name, err)
	case err == nil && !ours(i):
		return nil // another implementation's: its ServiceImport stands
	case len(merged.Exports) == 0:
		return r.remove(ctx, name, existing, i)
	case err != nil:
		i = &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: labels(name)}, Spec: merged.ImportSpec("")}
		if err := r.Client.Create(ctx, i); err != nil {
			return fmt.Errorf("create service import %s: %w", name, err)
		}
	}
	if !i.DeletionTimestamp.IsZero() {
		return nil // its end asks for another turn
	}
	if merged.Type != channel.ClusterSetIP {
		return r.applyHeadless(ctx, i, merged, existing)
	}
	service, err := r.derived(ctx, i, merged)
	if err != nil {
		return err
	}
	if service == nil {
		return r.stateImport(ctx, i, merged, ReasonNotOurs, fmt.Sprintf(
			"Service %s in the namespace was not made by Weft and has the name that the import needs: delete it", DerivedName(name)))
	}
	if err := r.applySlices(ctx, planSlices(i, existing, sources)); err != nil {
		return err
	}
	if err := r.applySpec(ctx, i, merged.ImportSpec(service.Spec.ClusterIP)); err != nil {
		return err
	}
	if service.Spec.ClusterIP == "" {
		return r.stateImport(ctx, i, merged, string(mcsv1beta1.ServiceImportReasonPending), "the derived Service has no IP yet")
	}
	return r.stateImport(ctx, i, merged, "", "")
}

// applyHeadless says that the service is not served.
func (r *Importer) applyHeadless(ctx context.Context, i *mcsv1beta1.ServiceImport, merged Import, existing []discoveryv1.EndpointSlice) error {
	if err := r.removeDerived(ctx, client.ObjectKeyFromObject(i), existing); err != nil {
		return err
	}
	if err := r.applySpec(ctx, i, merged.ImportSpec("")); err != nil {
		return err
	}
	return r.stateImport(ctx, i, merged, ReasonHeadlessNotSupported, "the oldest export is headless, which this release does not import")
}

func (r *Importer) applySpec(ctx context.Context, i *mcsv1beta1.ServiceImport, spec mcsv1beta1.ServiceImportSpec) error {
	if same(i.Spec, spec) {
		return nil
	}
	i.Spec = spec
	if err := r.Client.Update(ctx, i); err != nil {
		return fmt.Errorf("update service import %s: %w", client.ObjectKeyFromObject(i), err)
	}
	return nil
}

// derived makes the derived Service, or returns nil if somebody else's has its
// name.
func (r *Importer) derived(ctx context.Context, i *mcsv1beta1.ServiceImport, merged Import) (*corev1.Service, error) {
	name := client.ObjectKeyFromObject(i)
	service := &corev1.Service{}
	service.Namespace, service.Name = name.Namespace, DerivedName(name)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(service), service)
	switch {
	case apierrors.IsNotFound(err):
		merged.derive(service, i)
		err = r.Client.Create(ctx, service)
	case err == nil && !derivedFrom(service, name):
		return nil, nil
	case err == nil && merged.derive(service, i):
		err = r.Client.Update(ctx, service)
	}
	if err != nil {
		return nil, fmt.Errorf("apply service %s for import %s: %w", service.Name, name, err)
	}
	return service, nil
}

func (r *Importer) applySlices(ctx context.Context, changes sliceChanges) error {
	for _, slice := range changes.create {
		if err := r.createSlice(ctx, slice); err != nil {
			return fmt.Errorf("create endpoint slice %s: %w", client.ObjectKeyFromObject(slice), err)
		}
	}
	for _, slice := range changes.update {
		if err := r.Client.Update(ctx, slice); err != nil {
			return fmt.Errorf("update endpoint slice %s: %w", client.ObjectKeyFromObject(slice), err)
		}
	}
	return r.removeSlices(ctx, changes.remove)
}

// createSlice gives way to a slice of somebody else that has the name. One of the
// import's own, which the cache does not show yet, is an error.
func (r *Importer) createSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	err := r.Client.Create(ctx, slice)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there := &discoveryv1.EndpointSlice{}
	if r.Client.Get(ctx, client.ObjectKeyFromObject(slice), there) != nil ||
		ours(there) && there.Labels[mcsv1beta1.LabelServiceName] == slice.Labels[mcsv1beta1.LabelServiceName] {
		return err
	}
	slice.GenerateName, slice.Name = slice.Name+"-", ""
	return r.Client.Create(ctx, slice)
}

func (r *Importer) removeSlices(ctx context.Context, list []*discoveryv1.EndpointSlice) error {
	for _, slice := range list {
		if err := r.Client.Delete(ctx, slice, client.Preconditions{UID: &slice.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete endpoint slice %s: %w", client.ObjectKeyFromObject(slice), err)
		}
	}
	return nil
}

// remove takes a service away that nobody exports any more.
func (r *Importer) remove(ctx context.Context, name types.NamespacedName, existing []discoveryv1.EndpointSlice, i *mcsv1beta1.ServiceImport) error {
	if i.UID != "" && i.DeletionTimestamp.IsZero() {
		if err := r.Client.Delete(ctx, i, client.Preconditions{UID: &i.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete service import %s: %w", name, err)
		}
	}
	return r.removeDerived(ctx, name, existing)
}

func (r *Importer) removeDerived(ctx context.Context, name types.NamespacedName, existing []discoveryv1.EndpointSlice) error {
	service := &corev1.Service{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: DerivedName(name)}, service)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read service %s: %w", DerivedName(name), err)
	}
	if err == nil && derivedFrom(service, name) {
		if err := r.Client.Delete(ctx, service, client.Preconditions{UID: &service.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete service %s: %w", client.ObjectKeyFromObject(service), err)
		}
	}
	var all []*discoveryv1.EndpointSlice
	for n := range existing {
		all = append(all, &existing[n])
	}
	return r.removeSlices(ctx, all)
}
