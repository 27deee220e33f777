package services

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Reasons of a ForeignCluster's condition Services.
const (
	ReasonImported         = "Imported"
	ReasonNamespaceMissing = "NamespaceMissing"
	ReasonServicesRefused  = "Refused"
)

// result is what became of one service of a foreign cluster.
type result struct {
	// missing: there is no such namespace here.
	missing bool
	// withoutView is how many endpoints lie in none of the cluster's networks.
	withoutView int
}

// note keeps what became of a service of the foreign clusters that supply it.
func (r *Importer) note(name types.NamespacedName, supplies []supply, change func(result) result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range supplies {
		if s.fc == nil {
			continue
		}
		id := s.fc.Spec.Identity
		if r.results == nil {
			r.results = map[v1alpha1.Identity]map[types.NamespacedName]result{}
		}
		if r.results[id] == nil {
			r.results[id] = map[types.NamespacedName]result{}
		}
		before, known := r.results[id][name]
		after := change(before)
		r.results[id][name] = after
		if !known || before != after {
			r.Report(s.fc.Name)
		}
	}
}

// forget drops what is noted of a service that a cluster does not export here.
func (r *Importer) forget(fc *v1alpha1.ForeignCluster, name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.results[fc.Spec.Identity][name]; known {
		delete(r.results[fc.Spec.Identity], name)
		r.Report(fc.Name)
	}
}

// report writes the condition Services of a ForeignCluster.
func (r *Importer) report(ctx context.Context, name string) error {
	var fc v1alpha1.ForeignCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &fc); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !fc.DeletionTimestamp.IsZero() {
		return nil
	}
	r.mu.Lock()
	c := summarize(fc.Name, r.results[fc.Spec.Identity], r.Channels.RefusedServices(fc.Spec.Identity))
	r.mu.Unlock()
	changed := false
	if c.Type == "" {
		changed = meta.RemoveStatusCondition(&fc.Status.Conditions, v1alpha1.ConditionServices)
	} else {
		c.ObservedGeneration = fc.Generation
		changed = meta.SetStatusCondition(&fc.Status.Conditions, c)
	}
	if !changed {
		return nil
	}
	if err := r.Client.Status().Update(ctx, &fc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of foreign cluster %s: %w", name, err)
	}
	return nil
}

// summarize says what became of a cluster's services; the zero condition if it
// exports none. It is pure.
func summarize(cluster string, results map[types.NamespacedName]result, refused map[types.NamespacedName]string) metav1.Condition {
	if len(results) == 0 && len(refused) == 0 {
		return metav1.Condition{}
	}
	missing := map[string]bool{}
	away, without := 0, 0
	for name, s := range results {
		if s.missing {
			missing[name.Namespace] = true
			away++
		}
		without += s.withoutView
	}
	c := metav1.Condition{Type: v1alpha1.ConditionServices, Status: metav1.ConditionTrue, Reason: ReasonImported}
	said := []string{fmt.Sprintf("%d of %d services that %s exports are imported", len(results)-away, len(results), cluster)}
	if away > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNamespaceMissing
		said = append(said, "there is no namespace "+few(slices.Sorted(maps.Keys(missing)))+" here: create what shall have them")
	}
	if len(refused) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonServicesRefused
		var whys []string
		for name, why := range refused {
			whys = append(whys, fmt.Sprintf("%s/%s: %s", name.Namespace, name.Name, why))
		}
		slices.Sort(whys)
		said = append(said, fmt.Sprintf("what was said of %d is refused, and what was said before stands: %s", len(refused), few(whys)))
	}
	if without > 0 {
		said = append(said, fmt.Sprintf("%d endpoints are left out: they lie in no network of %s that is known here", without, cluster))
	}
	c.Message = strings.Join(said, "; ")
	return c
}

// few names the first of a list.
func few(list []string) string {
	const most = 4
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}
