package introduction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/condition"
	"github.com/weft-fabric/weft/controlplane/peering"
	"github.com/weft-fabric/weft/controlplane/turn"
)

const (
	// withdrawnWithin bounds, from the deletion on, how long the providers may take
	// to leave the link. One that cannot be heard learns it later.
	withdrawnWithin = 20 * time.Second
	// withdrawalPause is the time between two looks.
	withdrawalPause = 500 * time.Millisecond
	soon            = 50 * time.Millisecond
	// statusEvery is how often figures alone are written, and how often a
	// connection is looked at without an event.
	statusEvery = 30 * time.Second
)

// Consumer is the half that introduces: it tells the two providers of each
// ForeignClusterConnection of each other, and writes down what they report. It
// never gives up.
type Consumer struct {
	Client   client.Client
	Channels Channels
	// Again asks for another turn of package peering for a ForeignCluster, because
	// what is to be said to it has changed.
	Again func(name string)
	Now   func() time.Time
	Log   *slog.Logger

	mu sync.Mutex
	// outgoing by provider; nil before the first turn.
	outgoing map[v1alpha1.Identity][]channel.Introduction
	// wrote is about the status of each connection, by name.
	wrote map[string]writing
}

// Introductions returns what to say to a neighbor, nil if that is not known yet.
func (c *Consumer) Introductions(id v1alpha1.Identity) []channel.Introduction {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outgoing[id]
}

// Reconcile implements reconcile.Reconciler. A request is for the connection of
// its name. One without a name is for what is said alone, which the providers
// must learn also if there is no connection; with an identity as its namespace,
// it is for all connections of that provider.
func (c *Consumer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return turn.Settle(c.reconcile(ctx, request))
}

func (c *Consumer) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var connections v1alpha1.ForeignClusterConnectionList
	var clusters v1alpha1.ForeignClusterList
	// There may be thousands; they are only looked at.
	if err := c.Client.List(ctx, &connections, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list foreign cluster connections: %w", err)
	}
	if err := c.Client.List(ctx, &clusters); err != nil {
		return ctrl.Result{}, fmt.Errorf("list foreign clusters: %w", err)
	}
	c.publish(outgoing(connections.Items, clusters.Items), clusters.Items)
	result, failures := ctrl.Result{}, []error{}
	asked := matching(request, connections.Items, clusters.Items)
	for _, connection := range asked {
		after, err := c.connection(ctx, connection.DeepCopy(), connections.Items, clusters.Items)
		failures = append(failures, err)
		switch wait := after.RequeueAfter; {
		case request.Name != "":
			result = after
		case wait > 0 && wait < statusEvery: // else each has its own
			result.RequeueAfter = least(result.RequeueAfter, wait)
		}
	}
	if len(asked) == 0 {
		c.forget(request.Name)
	}
	return result, errors.Join(failures...)
}

// matching returns the connections that a request is for.
func matching(request ctrl.Request, connections []v1alpha1.ForeignClusterConnection, clusters []v1alpha1.ForeignCluster) []*v1alpha1.ForeignClusterConnection {
	provider := map[string]bool{}
	for i := range clusters {
		provider[clusters[i].Name] = string(clusters[i].Spec.Identity) == request.Namespace
	}
	var out []*v1alpha1.ForeignClusterConnection
	for i := range connections {
		c := &connections[i]
		if c.Name == request.Name || provider[c.Spec.ForeignClusterA] || provider[c.Spec.ForeignClusterB] {
			out = append(out, c)
		}
	}
	return out
}

// publish notes what is said to whom, and asks for it to be said.
func (c *Consumer) publish(next map[v1alpha1.Identity][]channel.Introduction, clusters []v1alpha1.ForeignCluster) {
	c.mu.Lock()
	before := c.outgoing
	c.outgoing = next
	c.mu.Unlock()
	for i := range clusters {
		if id := clusters[i].Spec.Identity; before == nil || !reflect.DeepEqual(before[id], next[id]) {
			c.Again(clusters[i].Name)
		}
	}
}

// connection takes one connection as far as it goes now.
func (c *Consumer) connection(ctx context.Context, connection *v1alpha1.ForeignClusterConnection, all []v1alpha1.ForeignClusterConnection, clusters []v1alpha1.ForeignCluster) (ctrl.Result, error) {
	sides := c.sides(connection, clusters)
	if !connection.DeletionTimestamp.IsZero() {
		return c.withdraw(ctx, connection, sides)
	}
	if controllerutil.AddFinalizer(connection, v1alpha1.Finalizer) {
		if err := c.Client.Update(ctx, connection); err != nil {
			return ctrl.Result{}, fmt.Errorf("add finalizer to foreign cluster connection %s: %w", connection.Name, err)
		}
		return ctrl.Result{RequeueAfter: soon}, nil // it is told once the cache has it
	}
	duplicate := duplicateOf(connection, all)
	a := assess(connection, duplicate, sides)
	again, err := c.writeStatus(ctx, connection, duplicate, a)
	return ctrl.Result{RequeueAfter: again}, err
}

// sides gathers what is known of the two providers.
func (c *Consumer) sides(connection *v1alpha1.ForeignClusterConnection, clusters []v1alpha1.ForeignCluster) [2]side {
	var out [2]side
	for i, name := range []string{connection.Spec.ForeignClusterA, connection.Spec.ForeignClusterB} {
		var fc *v1alpha1.ForeignCluster
		for k := range clusters {
			if clusters[k].Name == name {
				fc = &clusters[k]
			}
		}
		out[i] = side{name: name, unfit: unfit(name, fc)}
		if fc == nil {
			continue
		}
		status := c.Channels.Status(fc.Spec.Identity)
		out[i].connected, out[i].problem, out[i].refused = status.Connected, status.Problem, status.PeerRefused
		out[i].told = status.Said.Reports != nil
		for k := range status.Said.Reports {
			if status.Said.Reports[k].UID == string(connection.UID) {
				out[i].report = &status.Said.Reports[k]
			}
		}
	}
	return out
}

// withdraw lets a deleted connection go once both providers have forgotten it.
func (c *Consumer) withdraw(ctx context.Context, connection *v1alpha1.ForeignClusterConnection, sides [2]side) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(connection, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	left := connection.DeletionTimestamp.Add(withdrawnWithin).Sub(c.Now())
	if (sides[0].holds() || sides[1].holds()) && left > 0 {
		return ctrl.Result{RequeueAfter: min(withdrawalPause, left)}, nil
	}
	controllerutil.RemoveFinalizer(connection, v1alpha1.Finalizer)
	if err := c.Client.Update(ctx, connection); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer from foreign cluster connection %s: %w", connection.Name, err)
	}
	c.Log.Info("withdrawn", "connection", connection.Name)
	c.forget(connection.Name)
	return ctrl.Result{}, nil
}

// holds reports whether the provider still has something of the connection, or
// may have: one that refuses it has nothing, one that is not heard may.
func (s *side) holds() bool {
	if s.unfit != "" && s.report == nil {
		return false
	}
	return s.report != nil && !s.says(channel.ReportDenied) && !s.says(channel.ReportInvalidRecord) || !s.told || !s.connected
}

func (c *Consumer) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.wrote, name)
}

// writeStatus writes transitions at once, figures now and then, and none too
// often. It returns when to look again.
func (c *Consumer) writeStatus(ctx context.Context, connection *v1alpha1.ForeignClusterConnection, duplicate string, a assessment) (time.Duration, error) {
	now := c.Now()
	before := connection.Status.DeepCopy()
	status := &connection.Status
	status.Since = sinceOf(connection, a.phase, metav1.NewTime(now))
	status.Phase, status.Sides = a.phase, a.sides
	a.accepted.Set(&status.Conditions, v1alpha1.ConditionAccepted, connection.Generation)
	a.connected.Set(&status.Conditions, v1alpha1.ConditionConnected, connection.Generation)
	if duplicate == "" {
		meta.RemoveStatusCondition(&status.Conditions, peering.ConditionDuplicate)
	} else {
		condition.Yes(v1alpha1.ReasonDuplicateConnection, "%s", a.connected.Message).Set(&status.Conditions, peering.ConditionDuplicate, connection.Generation)
	}
	wrote := c.writingOf(connection.Name)
	if !worthWriting(before, status, now.Sub(wrote.at)) {
		return statusEvery, nil
	}
	if !wrote.limit.AllowN(now, 1) {
		return writeEvery, nil
	}
	if err := c.Client.Status().Update(ctx, connection); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("write the status of foreign cluster connection %s: %w", connection.Name, err)
	}
	wrote.at = now
	c.mu.Lock()
	c.wrote[connection.Name] = wrote
	c.mu.Unlock()
	if before.Phase != status.Phase {
		c.Log.Info("phase", "connection", connection.Name, "phase", status.Phase, "reason", a.connected.Reason, "message", a.connected.Message)
	}
	return statusEvery, nil
}

func (c *Consumer) writingOf(name string) writing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wrote == nil {
		c.wrote = map[string]writing{}
	}
	if _, known := c.wrote[name]; !known {
		c.wrote[name] = writing{limit: rate.NewLimiter(rate.Every(writeEvery), writeBurst)}
	}
	return c.wrote[name]
}

// worthWriting reports whether a status differs in more than figures, or in
// figures that are old enough.
func worthWriting(before, after *v1alpha1.ForeignClusterConnectionStatus, sinceWrite time.Duration) bool {
	if equality.Semantic.DeepEqual(before, after) {
		return false
	}
	return sinceWrite >= statusEvery || !equality.Semantic.DeepEqual(coarse(before), coarse(after))
}

// coarse leaves of each figure only whether it is known.
func coarse(s *v1alpha1.ForeignClusterConnectionStatus) *v1alpha1.ForeignClusterConnectionStatus {
	out := s.DeepCopy()
	for i := range out.Sides {
		side := &out.Sides[i]
		side.DirectRTTMicroseconds, side.HubRTTMicroseconds = min(side.DirectRTTMicroseconds, 1), min(side.HubRTTMicroseconds, 1)
		side.DirectLossPermille = 0
	}
	for i := range out.Conditions {
		out.Conditions[i].Message, _, _ = strings.Cut(out.Conditions[i].Message, rttMark)
	}
	return out
}
