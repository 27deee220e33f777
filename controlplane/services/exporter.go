package services

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/turn"
)

// Channels is what the reconcilers need of channel.Manager.
type Channels interface {
	SetServices(v1alpha1.Identity, map[types.NamespacedName]*channel.Service)
	SetService(v1alpha1.Identity, types.NamespacedName, *channel.Service) bool
	Service(v1alpha1.Identity, types.NamespacedName) (*channel.Service, bool)
	Services(v1alpha1.Identity) []types.NamespacedName
	RefusedServices(v1alpha1.Identity) map[types.NamespacedName]string
	ServiceRefusal(v1alpha1.Identity, types.NamespacedName) string
}

// Exporter tells peers what this cluster's ServiceExports say. One worker runs
// it. A request names a ServiceExport; the empty one asks for all of them, and
// peers are told that there are no others only after it.
type Exporter struct {
	Client   client.Client
	Channels Channels
	// Changed is called when what is exported under a name did. It must not block.
	Changed func(types.NamespacedName)
	// Known is called when all is known for the first time.
	Known func()

	book *book
	// around is what the last turn of all found: whatever changes it asks for
	// another one.
	around *surroundings
	// told are the clusters that are told anything.
	told map[v1alpha1.Identity]bool
}

// Reconcile implements reconcile.Reconciler.
func (x *Exporter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return turn.Settle(ctrl.Result{}, x.reconcile(ctx, request))
}

func (x *Exporter) reconcile(ctx context.Context, request ctrl.Request) error {
	if request.Name != "" {
		if x.around == nil {
			return nil // the turn of all covers it
		}
		return x.one(ctx, x.around, request.NamespacedName)
	}
	config, err := fabric(ctx, x.Client)
	if err != nil || config == nil {
		return err // it comes, and asks for all
	}
	s, err := x.read(ctx, config)
	if err != nil {
		return err
	}
	return x.all(ctx, s)
}

// surroundings is what turns look at beside the exports.
type surroundings struct {
	peers     []v1alpha1.ForeignCluster
	addresses Addresses
}

func (x *Exporter) read(ctx context.Context, config *v1alpha1.FabricConfig) (*surroundings, error) {
	peers, err := counted(ctx, x.Client)
	if err != nil {
		return nil, err
	}
	var fabricNodes v1alpha1.FabricNodeList
	var nodes corev1.NodeList
	if err := x.Client.List(ctx, &fabricNodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list fabric nodes: %w", err)
	}
	if err := x.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return &surroundings{peers: peers, addresses: AddressesOf(config.Status.Networks, fabricNodes.Items, nodes.Items)}, nil
}

// all looks at every export, and makes what peers are told the whole of it.
func (x *Exporter) all(ctx context.Context, s *surroundings) error {
	var list mcsv1beta1.ServiceExportList
	if err := x.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list service exports: %w", err)
	}
	found := map[types.NamespacedName]Exported{}
	exported := map[types.NamespacedName]Exported{}
	for i := range list.Items {
		export := &list.Items[i]
		if !export.DeletionTimestamp.IsZero() {
			continue
		}
		name := client.ObjectKeyFromObject(export)
		e, err := x.assess(ctx, export, s)
		if err != nil {
			return err
		}
		found[name] = e
		if e.Own != nil {
			exported[name] = e
		}
	}
	first := !x.book.isKnown()
	for _, name := range x.book.replace(exported) {
		x.Changed(name)
	}
	x.tellAll(s, exported)
	x.around = s
	if first {
		x.Known()
	}
	for i := range list.Items {
		e, ok := found[client.ObjectKeyFromObject(&list.Items[i])]
		if !ok {
			continue
		}
		if err := x.state(ctx, &list.Items[i], e, s); err != nil {
			return err
		}
	}
	return nil
}

func (x *Exporter) tellAll(s *surroundings, exported map[types.NamespacedName]Exported) {
	now := map[v1alpha1.Identity]bool{}
	for i := range s.peers {
		peer := &s.peers[i]
		services := map[types.NamespacedName]*channel.Service{}
		for name, e := range exported {
			if peer.Spec.Access.Services.Exports(name.Namespace) {
				services[name] = e.Told
			}
		}
		x.Channels.SetServices(peer.Spec.Identity, services)
		now[peer.Spec.Identity] = true
	}
	for id := range x.told {
		if !now[id] {
			x.Channels.SetServices(id, nil)
		}
	}
	x.told = now
}

func (x *Exporter) one(ctx context.Context, s *surroundings, name types.NamespacedName) error {
	var export mcsv1beta1.ServiceExport
	var e Exported
	err := x.Client.Get(ctx, name, &export)
	gone := err != nil || !export.DeletionTimestamp.IsZero()
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read service export %s: %w", name, err)
	}
	if !gone {
		if e, err = x.assess(ctx, &export, s); err != nil {
			return err
		}
	}
	if x.book.set(name, e) {
		x.Changed(name)
	}
	for i := range s.peers {
		peer := &s.peers[i]
		if peer.Spec.Access.Services.Exports(name.Namespace) {
			x.Channels.SetService(peer.Spec.Identity, name, e.Told)
		}
	}
	if gone {
		return nil
	}
	return x.state(ctx, &export, e, s)
}

func (x *Exporter) assess(ctx context.Context, export *mcsv1beta1.ServiceExport, s *surroundings) (Exported, error) {
	name := client.ObjectKeyFromObject(export)
	service := &corev1.Service{}
	if err := x.Client.Get(ctx, name, service); client.IgnoreNotFound(err) != nil {
		return Exported{}, fmt.Errorf("read service %s: %w", name, err)
	} else if err != nil {
		service = nil
	}
	var endpoints discoveryv1.EndpointSliceList
	err := x.Client.List(ctx, &endpoints, client.InNamespace(name.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name.Name})
	if err != nil {
		return Exported{}, fmt.Errorf("list the endpoint slices of service %s: %w", name, err)
	}
	return Assess(export, service, endpoints.Items, s.addresses), nil
}

// state writes what has become of an export. The condition Conflict is the
// importer's.
func (x *Exporter) state(ctx context.Context, export *mcsv1beta1.ServiceExport, e Exported, s *surroundings) error {
	status := export.Status.DeepCopy()
	set := func(c metav1.Condition) {
		c.ObservedGeneration = export.Generation
		meta.SetStatusCondition(&export.Status.Conditions, c)
	}
	set(e.Valid)
	switch {
	case e.Own != nil:
		set(x.ready(client.ObjectKeyFromObject(export), e, s.peers))
	case e.Problem.Type != "":
		set(e.Problem)
	default:
		set(condition(mcsv1beta1.ServiceExportConditionReady, metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonFailed), e.Valid.Message))
	}
	if e.Own == nil {
		meta.RemoveStatusCondition(&export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict))
	}
	if same(status, &export.Status) {
		return nil
	}
	if err := x.Client.Status().Update(ctx, export); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of service export %s: %w", client.ObjectKeyFromObject(export), err)
	}
	return nil
}

// ready says whom the service is exported to. Where there was no room for it, it
// tries again.
func (x *Exporter) ready(name types.NamespacedName, e Exported, peers []v1alpha1.ForeignCluster) metav1.Condition {
	var to, refused []string
	for i := range peers {
		peer := &peers[i]
		if !peer.Spec.Access.Services.Exports(name.Namespace) {
			continue
		}
		to = append(to, peer.Name)
		if why := x.Channels.ServiceRefusal(peer.Spec.Identity, name); why != "" {
			refused = append(refused, fmt.Sprintf("%s refuses it: %s", peer.Name, why))
		} else if !x.Channels.SetService(peer.Spec.Identity, name, e.Told) {
			refused = append(refused, fmt.Sprintf("%s is told of %d services already, and takes no more: export fewer", peer.Name, channel.MaxServices))
		}
	}
	ready := func(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason, message string) metav1.Condition {
		if len(message) > maxMessage {
			message = message[:maxMessage] + "..."
		}
		return condition(mcsv1beta1.ServiceExportConditionReady, status, string(reason), message)
	}
	switch {
	case len(to) == 0:
		return ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonPending,
			fmt.Sprintf("no peer is told of it: allow the namespace in access.services.export of a ForeignCluster (namespace %s)", name.Namespace))
	case len(refused) > 0:
		return ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonFailed, strings.Join(refused, "; "))
	}
	if e.OnNodes > 0 && e.Told.Endpoints() == 0 {
		return ready(metav1.ConditionFalse, ReasonHostNetwork,
			fmt.Sprintf("all %d endpoints are on the host network, at addresses of nodes, where other clusters get no answer: peers are told of none", e.OnNodes))
	}
	message := "exported to " + strings.Join(to, ", ")
	if e.OnNodes > 0 {
		message += fmt.Sprintf("; %d endpoints are left out: they are on the host network, where other clusters get no answer", e.OnNodes)
	}
	if e.LeftOut > 0 {
		message += fmt.Sprintf("; %d endpoints are left out: no exported network holds them", e.LeftOut)
	}
	if e.TooMany > 0 {
		message += fmt.Sprintf("; %d endpoints are left out: a service has at most %d", e.TooMany, channel.MaxServiceEndpoints)
	}
	return ready(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonExported, message)
}
