package peering

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/fabric"
)

const (
	// goodbyeWithin bounds how long a peer may take to answer a goodbye.
	goodbyeWithin = 5 * time.Second
	// removedWithin bounds, from the deletion on, how long the agents may take to
	// remove what they made. The agents of a dead node never report.
	removedWithin = 20 * time.Second
	// teardownPause is the time between two looks.
	teardownPause = 500 * time.Millisecond
)

// farewell is how far the goodbye to a peer has come.
type farewell int

const (
	notSaid farewell = iota
	saying
	said
)

// teardown says goodbye, deletes the Neighbor, waits for the agents, and lets
// the ForeignCluster go; each of it within a bound.
func (r *Reconciler) teardown(ctx context.Context, fc *v1alpha1.ForeignCluster, m *memory) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(fc, v1alpha1.Finalizer) {
		r.forget(fc.Name, m)
		return ctrl.Result{}, nil
	}
	if r.sayGoodbye(fc, m) != said {
		return ctrl.Result{RequeueAfter: goodbyeWithin}, nil // the end of it asks for a turn earlier
	}
	late := r.Now().Sub(fc.DeletionTimestamp.Time) >= removedWithin
	if naming, err := r.stillNamed(ctx, fc); err != nil {
		return ctrl.Result{}, err
	} else if len(naming) > 0 && !late {
		for _, name := range naming {
			r.Again(name) // its rows of this cluster go before the cluster's networks
		}
		return ctrl.Result{RequeueAfter: teardownPause}, nil
	}
	if err := r.deleteNeighbor(ctx, fc.Name, fc.Spec.Identity); err != nil {
		return ctrl.Result{}, err
	}
	waiting, err := r.stillApplied(ctx, fc.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(waiting) > 0 && !late {
		return ctrl.Result{RequeueAfter: teardownPause}, nil
	}
	controllerutil.RemoveFinalizer(fc, v1alpha1.Finalizer)
	if err := r.Client.Update(ctx, fc); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer from foreign cluster %s: %w", fc.Name, err)
	}
	r.forget(fc.Name, m)
	return ctrl.Result{}, nil
}

// sayGoodbye starts the goodbye beside the turn, so that a peer that does not
// answer holds up nobody else.
func (r *Reconciler) sayGoodbye(fc *v1alpha1.ForeignCluster, m *memory) farewell {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.farewell != notSaid {
		return m.farewell
	}
	if !m.peered || !r.Channels.Status(fc.Spec.Identity).Connected {
		if m.peered {
			r.Channels.RemovePeer(fc.Spec.Identity)
			m.peered = false
		}
		m.farewell = said
		return said
	}
	m.farewell = saying
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeWithin)
		defer cancel()
		_ = r.Channels.Goodbye(ctx, m.identity) // answered or not, the peering ends
		r.Channels.RemovePeer(m.identity)
		r.mu.Lock()
		m.peered, m.farewell = false, said
		r.mu.Unlock()
		r.Again(fc.Name)
	}()
	return saying
}

// deleteNeighbor deletes the Neighbor of this name if it is of this identity.
func (r *Reconciler) deleteNeighbor(ctx context.Context, name string, id v1alpha1.Identity) error {
	var neighbor v1alpha1.Neighbor
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &neighbor); err != nil {
		return client.IgnoreNotFound(err)
	}
	if id != "" && neighbor.Spec.Identity != id {
		return nil
	}
	if err := r.Client.Delete(ctx, &neighbor, client.Preconditions{UID: &neighbor.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete neighbor %s: %w", name, err)
	}
	return nil
}

// stillNamed lists the Neighbors whose rows name a cluster behind them or behind
// us.
func (r *Reconciler) stillNamed(ctx context.Context, fc *v1alpha1.ForeignCluster) ([]string, error) {
	neighbors, err := r.listNeighbors(ctx)
	if err != nil {
		return nil, err
	}
	own := find(neighbors, fc.Name)
	if own == nil || own.Spec.Identity != fc.Spec.Identity {
		return nil, nil
	}
	var names []string
	for i := range neighbors {
		n := &neighbors[i]
		if n.Name != own.Name && slices.ContainsFunc(n.Spec.Rows, func(row v1alpha1.Row) bool { return row.OriginIndex == own.Spec.ClusterIndex }) {
			names = append(names, n.Name)
		}
	}
	return names, nil
}

// stillApplied names the nodes that still hold rows of a neighbor. Nodes whose
// kubelet is not ready cannot answer and do not count.
func (r *Reconciler) stillApplied(ctx context.Context, name string) ([]string, error) {
	var nodes v1alpha1.FabricNodeList
	var kubeNodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list fabric nodes: %w", err)
	}
	if err := r.Client.List(ctx, &kubeNodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	alive := fabric.ReadyNodes(kubeNodes.Items)
	var waiting []string
	for i := range nodes.Items {
		n := &nodes.Items[i]
		applied := slices.ContainsFunc(n.Status.Applied, func(a v1alpha1.AppliedNeighbor) bool { return a.Name == name })
		if alive[n.Name] && applied {
			waiting = append(waiting, n.Name)
		}
	}
	return waiting, nil
}

// orphan removes what is left of a ForeignCluster that went without us: a
// Neighbor of its name, after the API server itself has said that it is gone.
func (r *Reconciler) orphan(ctx context.Context, name string) error {
	var fc v1alpha1.ForeignCluster
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, &fc); !apierrors.IsNotFound(err) {
		return err
	}
	r.mu.Lock()
	m := r.memory[name]
	r.mu.Unlock()
	if m != nil {
		r.forget(name, m)
	}
	return r.deleteNeighbor(ctx, name, "")
}

func (r *Reconciler) forget(name string, m *memory) {
	r.mu.Lock()
	peered := m.peered
	m.peered = false
	if r.memory[name] == m {
		delete(r.memory, name)
	}
	r.mu.Unlock()
	if peered {
		r.Channels.RemovePeer(m.identity)
	}
}
