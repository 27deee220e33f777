package controlplane

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/apis/agent"
	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/agentclient"
	"github.com/weft-fabric/weft/controlplane/agenttest"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/fabric"
	"github.com/weft-fabric/weft/controlplane/identity"
	"github.com/weft-fabric/weft/controlplane/introduction"
	"github.com/weft-fabric/weft/controlplane/ipam"
	"github.com/weft-fabric/weft/controlplane/measure"
	"github.com/weft-fabric/weft/controlplane/nodes"
	"github.com/weft-fabric/weft/controlplane/peering"
	"github.com/weft-fabric/weft/controlplane/services"
)

const patience = 60 * time.Second

var quick = channel.Timing{
	HigherWaits: 100 * time.Millisecond, Attempt: 2 * time.Second,
	BackoffMin: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
	Keepalive: 10 * time.Second, KeepaliveTimeout: 4 * time.Second,
}

// side is one cluster: an API server in memory, a controller process, and
// agents that do what the API says (unless they are lame).
type side struct {
	t      *testing.T
	name   string
	client client.WithWatch
	agent  *agenttest.Agent
	// lame agents do not put Neighbors in place.
	lame bool
	// trio that the side belongs to, nil if there is no hub.
	trio *trio
	// later is how far the clock of introductions is ahead.
	later time.Duration
	// alter, if not nil, is what a dishonest controller says in place of its
	// introductions.
	alter func([]channel.Introduction) []channel.Introduction

	// down are clusters to which no probe is answered any more.
	down map[string]bool

	self     identity.Self
	nodes    *nodes.Reconciler
	fabric   *fabric.Reconciler
	peers    *peering.Reconciler
	consumer *introduction.Consumer
	provider *introduction.Provider
	services *services.Services
	poller   *measure.Poller
	listener net.Listener
	channels *channel.Manager
	stop     func()
}

// newSide makes a cluster of two nodes, of which the first becomes the gateway.
func newSide(t *testing.T, name string, objects ...client.Object) *side {
	t.Helper()
	s := &side{t: t, name: name, client: apiServer(t)}
	var err error
	s.agent, err = agenttest.New()
	require.NoError(t, err)
	t.Cleanup(s.agent.Close)
	config := &v1alpha1.FabricConfig{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FabricConfigName},
		Spec: v1alpha1.FabricConfigSpec{
			ClusterID: v1alpha1.ClusterID(name), Pools: []v1alpha1.CIDR{"100.64.0.0/10"}, WirePools: []v1alpha1.CIDR{"240.0.0.0/5"},
			NodeNetworkPrefixLength: 20, Ports: v1alpha1.PortsSpec{Agent: int32(s.agent.Address.Port())},
		},
	}
	for i := range 2 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", name, i+1)}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, node)
	}
	kubeadm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}}
	kubeadm.Data = map[string]string{"ClusterConfiguration": "networking:\n  podSubnet: 10.244.0.0/16\n"}
	for _, object := range append(objects, config, kubeadm) {
		require.NoError(t, s.client.Create(t.Context(), object))
	}
	s.start()
	return s
}

// apiServer is a fake client that, unlike the plain one, gives objects a UID
// and counts their generations.
func apiServer(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	// The fake client's updates cost in proportion to the kinds that it knows.
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, discoveryv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.FabricConfig{}, &v1alpha1.FabricNode{}, &v1alpha1.ForeignCluster{}, &v1alpha1.ForeignClusterConnection{}).
		WithStatusSubresource(servicesAPI(t, scheme)...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				object.SetUID(uuid.NewUUID())
				object.SetGeneration(1)
				object.SetCreationTimestamp(metav1.Now())
				allocate(object)
				return c.Create(ctx, object, options...)
			},
			Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
				if _, ok := object.(*v1alpha1.Neighbor); ok {
					object.SetGeneration(object.GetGeneration() + 1)
				}
				return c.Update(ctx, object, options...)
			},
		}).Build()
}

// start begins a controller process.
func (s *side) start() {
	s.t.Helper()
	var err error
	s.self, err = identity.Secrets{Reader: s.client, Writer: s.client, Namespace: v1alpha1.SystemNamespace, Now: time.Now}.Identity(s.t.Context())
	require.NoError(s.t, err)
	s.agent.SetOwner(s.self.ID)
	certificate, err := apiidentity.Certificate(s.self.Key)
	require.NoError(s.t, err)
	agents := &agentclient.Client{Certificate: certificate}
	claims := ipam.APIStore{Reader: s.client, Writer: s.client}
	s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	s.nodes = &nodes.Reconciler{Client: s.client, Now: time.Now}
	s.fabric = &fabric.Reconciler{Client: s.client, Reader: s.client, Claims: claims, Self: s.self, ChannelEndpoint: s.listener.Addr().String(), Now: time.Now}
	s.peers = &peering.Reconciler{Client: s.client, Reader: s.client, Claims: claims, Self: s.self.ID, Now: time.Now, Again: func(string) {}}
	s.poller = &measure.Poller{Gateways: measured(s.client), Ask: agents.Measurements, Changed: func() {}, Interval: 100 * time.Millisecond, Now: time.Now}
	s.channels = channel.New(channel.Options{
		Self: s.self.ID, Certificate: certificate, Timing: quick, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Changed: func(v1alpha1.Identity) {},
		Dialer:  &agentclient.ChannelDialer{Client: agents, Gateways: gateways(s.client)},
	})
	s.services = services.New(s.client, s.self.ID, slog.New(slog.DiscardHandler))
	s.services.SetChannels(s.channels)
	s.peers.Channels, s.peers.View = s.channels, s.poller.View
	s.introductions()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = s.channels.Run(ctx, s.listener); done <- struct{}{} }()
	go func() { _ = s.poller.Run(ctx); done <- struct{}{} }()
	s.stop = func() {
		cancel()
		<-done
		<-done
		s.stop = func() {}
	}
	s.t.Cleanup(func() { s.stop() })
}

// introductions wires both halves as assemble does.
func (s *side) introductions() {
	now := func() time.Time { return time.Now().Add(s.later) }
	log := slog.New(slog.DiscardHandler)
	s.consumer = &introduction.Consumer{Client: s.client, Channels: s.channels, Again: func(string) {}, Now: now, Log: log}
	s.provider = &introduction.Provider{
		Client: s.client, Self: s.self.ID, Channels: s.channels, View: s.poller.View,
		OffDirect: s.peers.OffDirect, Again: func(string) {}, Now: now, Log: log,
	}
	s.peers.Reports = s.provider.Reports
	s.peers.Introductions = func(id v1alpha1.Identity) []channel.Introduction {
		list := s.consumer.Introductions(id)
		if s.alter != nil {
			list = s.alter(slices.Clone(list))
		}
		return list
	}
}

// restart ends the controller process and begins another one.
func (s *side) restart() {
	s.stop()
	s.start()
}

// connect opens the tunnel towards other.
func (s *side) connect(other *side) {
	authority := netip.AddrPortFrom(apiidentity.ChannelAddress(other.self.ID, 1), v1alpha1.ChannelPort).String()
	s.agent.SetRoute(authority, other.listener.Addr().String())
}

// turn runs each reconciler once, then the agents.
func (s *side) turn() {
	s.t.Helper()
	request := ctrl.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.FabricConfigName}}
	_, err := s.nodes.Reconcile(s.t.Context(), request)
	require.NoError(s.t, err)
	_, err = s.fabric.Reconcile(s.t.Context(), request)
	require.NoError(s.t, err)
	var connections v1alpha1.ForeignClusterConnectionList
	require.NoError(s.t, s.client.List(s.t.Context(), &connections))
	for _, c := range append(connections.Items, v1alpha1.ForeignClusterConnection{}) {
		_, err = s.consumer.Reconcile(s.t.Context(), requestFor(c.Name))
		require.NoError(s.t, err)
	}
	_, err = s.provider.Reconcile(s.t.Context(), ctrl.Request{})
	require.NoError(s.t, err)
	var clusters v1alpha1.ForeignClusterList
	require.NoError(s.t, s.client.List(s.t.Context(), &clusters))
	for _, fc := range clusters.Items {
		_, err := s.peers.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: fc.Name}})
		require.NoError(s.t, err)
	}
	s.share(clusters.Items)
	s.agents()
}

// agents put in place what they find and report it; their probes are answered
// once both ends' rows are there.
func (s *side) agents() {
	s.t.Helper()
	var config v1alpha1.FabricConfigList
	var fabricNodes v1alpha1.FabricNodeList
	var neighbors v1alpha1.NeighborList
	for _, list := range []client.ObjectList{&config, &fabricNodes, &neighbors} {
		require.NoError(s.t, s.client.List(s.t.Context(), list))
	}
	uninstalling := len(config.Items) == 1 && !config.Items[0].DeletionTimestamp.IsZero()
	for i := range fabricNodes.Items {
		n := &fabricNodes.Items[i]
		before := n.Status.DeepCopy()
		n.Status.UnderlayAddress, n.Status.UnderlayMTU = s.agent.Address.Addr().String(), 1500
		n.Status.AgentCertificate = s.agent.Certificate
		if n.Spec.GatewayID != 0 {
			key := base64.StdEncoding.EncodeToString(s.self.Key.Public().(ed25519.PublicKey)) // any 32 bytes
			n.Status.Lanes = []v1alpha1.LaneStatus{{Name: "weft0", Port: 51847, PublicKey: key}}
		}
		if !s.lame {
			n.Status.Applied = applied(neighbors.Items)
		}
		meta.SetStatusCondition(&n.Status.Conditions, agentCondition(uninstalling))
		if !equality.Semantic.DeepEqual(before, &n.Status) {
			require.NoError(s.t, s.client.Status().Update(s.t.Context(), n))
		}
	}
	s.agent.SetMeasurements(s.measurements(neighbors.Items))
}

func applied(neighbors []v1alpha1.Neighbor) []v1alpha1.AppliedNeighbor {
	var out []v1alpha1.AppliedNeighbor
	for _, n := range neighbors {
		out = append(out, v1alpha1.AppliedNeighbor{Name: n.Name, UID: n.UID, Generation: n.Generation})
	}
	return out
}

func agentCondition(uninstalling bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"}
	if uninstalling {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonTornDown
	}
	return c
}

func (s *side) measurements(neighbors []v1alpha1.Neighbor) agent.Measurements {
	var out agent.Measurements
	for i := range neighbors {
		n := &neighbors[i]
		paths := s.paths(n, neighbors)
		choose(n.Spec.Paths, paths)
		for _, p := range paths {
			if p.Active {
				out.Clusters = append(out.Clusters, agent.Cluster{Cluster: n.Name, ClusterIndex: n.Spec.ClusterIndex})
			}
		}
		out.Paths = append(out.Paths, paths...)
	}
	return out
}

// paths to a cluster: its own tunnel, and those of the hubs that have rows of it.
func (s *side) paths(n *v1alpha1.Neighbor, all []v1alpha1.Neighbor) []agent.Path {
	var out []agent.Path
	add := func(via *v1alpha1.Neighbor, up bool, rtt int64) {
		p := agent.Path{Cluster: n.Name, ClusterIndex: n.Spec.ClusterIndex, Via: via.Name, ViaIndex: via.Spec.ClusterIndex, OwnGateway: 1, RemoteGateway: 1}
		p.State = v1alpha1.PathUnknown
		switch {
		case s.down[n.Name]:
			p.State = v1alpha1.PathDown
		case up:
			p.State, p.RTTMicroseconds = v1alpha1.PathUp, rtt
		}
		out = append(out, p)
	}
	if len(n.Spec.Peers) > 0 {
		crosses := ownRows(n, v1alpha1.RowOurs, n.Spec.ClusterIndex) && ownRows(n, v1alpha1.RowTheirs, 0)
		add(n, crosses && s.trio.linked(s, n.Spec.Identity), 20100)
	}
	for i := range all {
		if hub := &all[i]; hub.Name != n.Name && ownRows(hub, v1alpha1.RowOurs, n.Spec.ClusterIndex) {
			add(hub, s.trio.forwards(s, hub.Spec.Identity, n.Spec.Identity), 80400)
		}
	}
	return out
}

// choose marks the path that an agent would take.
func choose(policy v1alpha1.PathPolicy, paths []agent.Path) {
	best := -1
	for i := range paths {
		p := &paths[i]
		forbidden := policy == v1alpha1.PathDirectOnly && !p.Direct() || policy == v1alpha1.PathHubOnly && p.Direct() && len(paths) > 1
		if p.State == v1alpha1.PathUp && !forbidden && (best < 0 || p.Direct()) {
			best = i
		}
	}
	if best >= 0 {
		paths[best].Active = true
	}
}

func ownRows(n *v1alpha1.Neighbor, side v1alpha1.RowSide, origin int32) bool {
	return slices.ContainsFunc(n.Spec.Rows, func(r v1alpha1.Row) bool { return r.Side == side && r.OriginIndex == origin })
}

func rows(n *v1alpha1.Neighbor, side v1alpha1.RowSide) []v1alpha1.Row {
	var out []v1alpha1.Row
	for _, row := range n.Spec.Rows {
		if row.Side == side {
			out = append(out, row)
		}
	}
	return out
}

// until takes turns of all sides until ok.
func until(t *testing.T, what string, ok func() bool, sides ...*side) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		for _, s := range sides {
			s.turn()
		}
		if time.Now().After(deadline) {
			for _, s := range sides {
				var list v1alpha1.ForeignClusterList
				require.NoError(t, s.client.List(t.Context(), &list))
				for _, fc := range list.Items {
					t.Logf("%s: %s: %+v", s.name, fc.Name, fc.Status.Conditions)
				}
			}
			require.FailNow(t, "never: "+what)
		}
		time.Sleep(10 * time.Millisecond) // the channel and the poller run beside the turns
	}
}

func (s *side) config() *v1alpha1.FabricConfig {
	s.t.Helper()
	config, err := fabricConfig(s.t.Context(), s.client)
	require.NoError(s.t, err)
	return config
}

func (s *side) neighbor(name string) *v1alpha1.Neighbor {
	s.t.Helper()
	var n v1alpha1.Neighbor
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: name}, &n); err != nil {
		require.NoError(s.t, client.IgnoreNotFound(err))
		return nil
	}
	return &n
}

// foreign returns what s needs to peer with other.
func (s *side) foreign(other *side) *v1alpha1.ForeignCluster {
	s.t.Helper()
	status := other.config().Status
	require.NotEmpty(s.t, status.Record)
	return &v1alpha1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: other.name},
		Spec:       v1alpha1.ForeignClusterSpec{Identity: status.Identity, Record: status.Record, Access: v1alpha1.AccessSpec{Pods: v1alpha1.PodAccessAll}},
	}
}

func (s *side) create(object client.Object) {
	s.t.Helper()
	require.NoError(s.t, s.client.Create(s.t.Context(), object))
}

// condition of a ForeignCluster, as "Status Reason: message".
func (s *side) condition(name, kind string) string {
	s.t.Helper()
	var fc v1alpha1.ForeignCluster
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: name}, &fc); err != nil {
		return ""
	}
	c := meta.FindStatusCondition(fc.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func (s *side) isReady() bool {
	return meta.IsStatusConditionTrue(s.config().Status.Conditions, v1alpha1.ConditionReady)
}

func contains(text, part string) bool { return bytes.Contains([]byte(text), []byte(part)) }

func requestFor(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}
}
