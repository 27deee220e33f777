package install

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/kube"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/peering"
)

func quiet(string) {}

func named(name string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Finalizers: finalizers}
}

// installed is the API server of a cluster of two nodes on which Weft runs, as
// far as an uninstall looks at it.
func installed(t *testing.T, finalizers ...string) *kube.Cluster {
	t.Helper()
	scheme, err := kube.Scheme()
	require.NoError(t, err)
	objects := []client.Object{
		&v1alpha1.FabricConfig{ObjectMeta: named("default", finalizers...)},
		&v1alpha1.FabricNode{ObjectMeta: named("a1"), Status: v1alpha1.FabricNodeStatus{
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTornDown}},
		}},
		&v1alpha1.FabricNode{ObjectMeta: named("a2")},
		&v1alpha1.ForeignCluster{ObjectMeta: named("b", finalizers...)},
		&v1alpha1.ForeignCluster{ObjectMeta: named("made", finalizers...), Spec: v1alpha1.ForeignClusterSpec{ReachedThrough: []string{"b"}}},
		&v1alpha1.ForeignClusterConnection{ObjectMeta: named("b-x", finalizers...)},
		&corev1.Namespace{ObjectMeta: named("weft-system")},
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "weft-agent", Namespace: "weft-system"},
			Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Image: "registry.example/weft:7", ImagePullPolicy: corev1.PullAlways,
			}}}}},
		},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return &kube.Cluster{Client: sweepRuns(c), Version: "v1.37.2"}
}

// released plays a controller that lets go of peers at once and of the
// FabricConfig after the time.
func released(t *testing.T, c *kube.Cluster, after time.Duration) *kube.Cluster {
	start := time.Now()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	inner := c.Client.(client.WithWatch)
	played := interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, plain client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			err := plain.Get(ctx, key, into, options...)
			_, isConfig := into.(*v1alpha1.FabricConfig)
			_, isPeer := into.(*v1alpha1.ForeignCluster)
			_, isConnection := into.(*v1alpha1.ForeignClusterConnection)
			isPeer = isPeer || isConnection
			if err == nil && into.GetDeletionTimestamp() != nil && (isPeer || (isConfig && time.Since(start) >= after)) {
				require.NoError(t, plain.Patch(ctx, into, patch))
				return plain.Get(ctx, key, into, options...)
			}
			return err
		},
	})
	return &kube.Cluster{Client: played, Version: c.Version}
}

// sweepRuns plays the DaemonSet controller: weft-sweep is at once ready where
// it should run. It also sees that the installed image is used.
func sweepRuns(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			err := inner.Get(ctx, key, into, options...)
			if set, ok := into.(*appsv1.DaemonSet); ok && err == nil && set.Name == sweepName &&
				set.Spec.Template.Spec.InitContainers[0].Image == "registry.example/weft:7" {
				set.Status.ObservedGeneration = 1
			}
			return err
		},
	})
}

func remainingObjects(t *testing.T, c client.Client) int {
	t.Helper()
	count := 0
	for _, list := range []client.ObjectList{
		&v1alpha1.FabricConfigList{}, &v1alpha1.ForeignClusterList{}, &v1alpha1.ForeignClusterConnectionList{}, &appsv1.DaemonSetList{}, &corev1.NamespaceList{},
	} {
		require.NoError(t, c.List(t.Context(), list))
		count += meta.LenList(list)
	}
	return count
}

// Node a2's agent is dead, the controller releases the config after its bound:
// everything goes, and a2 is named as not cleaned.
func TestUninstallNamesTheSilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t, v1alpha1.Finalizer), controllerGrace)
		left, err := Uninstall(t.Context(), c, false, quiet)
		require.NoError(t, err)
		require.Equal(t, Leftovers{Nodes: []string{"a2"}}, left)
		require.Zero(t, remainingObjects(t, c))
		// Once more: nothing is there, and that is fine.
		left, err = Uninstall(t.Context(), c, false, quiet)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// The last report and the release fall between two looks: nobody is named.
func TestUninstallTrustsAnEarlyRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t, v1alpha1.Finalizer), time.Second)
		left, err := Uninstall(t.Context(), c, false, quiet)
		require.NoError(t, err)
		require.Empty(t, left)
		require.Zero(t, remainingObjects(t, c))
	})
}

// The controller is dead. Without force the uninstall stops in time and says
// so; with force it goes on, and lists what nobody cleaned.
func TestUninstallWithoutController(t *testing.T) {
	c := installed(t, v1alpha1.Finalizer)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := Uninstall(t.Context(), c, false, quiet)
		require.ErrorContains(t, err, "ForeignClusterConnection b-x is marked for deletion, but weft-controller has not released it")
		require.ErrorContains(t, err, "--force")
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
		require.NotZero(t, remainingObjects(t, c))

		left, err := Uninstall(t.Context(), c, true, quiet)
		require.NoError(t, err)
		require.Equal(t, Leftovers{Connections: []string{"b-x"}, Nodes: []string{"a2"}, Peers: []string{"b", "made"}}, left)
		require.Zero(t, remainingObjects(t, c))
	})
}

// Node a2 is dead, kubelet and all, so its pod never ends. The uninstall says
// so in time; with force it gives the pod up and names the node.
func TestUninstallWithDeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t, v1alpha1.Finalizer), time.Second)
		dead := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "weft-agent-x", Namespace: "weft-system", Finalizers: []string{"kubelet/never"}},
			Spec:       corev1.PodSpec{NodeName: "a2"},
		}
		agent := &appsv1.DaemonSet{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "weft-system", Name: "weft-agent"}, agent))
		agent.Finalizers = []string{"foregroundDeletion"}
		require.NoError(t, c.Update(t.Context(), agent))
		require.NoError(t, c.Create(t.Context(), dead))
		require.NoError(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: named("a2")}))

		_, err := Uninstall(t.Context(), c, false, quiet)
		require.ErrorContains(t, err, "nodes that do not answer (a2)")
		require.ErrorContains(t, err, "--force")

		left, err := Uninstall(t.Context(), &kube.Cluster{Client: givesUp(t, c), Version: c.Version}, true, quiet)
		require.NoError(t, err)
		require.Equal(t, Leftovers{Nodes: []string{"a2"}}, left)
		require.Zero(t, remainingObjects(t, c))
	})
}

// givesUp plays the API server: a pod deleted without grace is gone, and so is
// what waited for it.
func givesUp(t *testing.T, c *kube.Cluster) client.Client {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	return interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, plain client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			applied := client.DeleteOptions{}
			applied.ApplyOptions(options)
			if pod, ok := object.(*corev1.Pod); ok {
				require.Zero(t, *applied.GracePeriodSeconds)
				require.NoError(t, plain.Patch(ctx, pod, patch))
				agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "weft-agent", Namespace: "weft-system"}}
				require.NoError(t, plain.Patch(ctx, agent, patch))
			}
			return plain.Delete(ctx, object, options...)
		},
	})
}

// Connections end while the providers can still be told, then the peers that
// admins made, and only then what weft-controller made for their sake: while a
// hub is there it would be made anew.
func TestUninstallEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t, v1alpha1.Finalizer), time.Second)
		var order []string
		watched := interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			Delete: func(ctx context.Context, plain client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				switch object.(type) {
				case *v1alpha1.ForeignCluster, *v1alpha1.ForeignClusterConnection, *v1alpha1.FabricConfig:
					order = append(order, object.GetName())
				}
				return plain.Delete(ctx, object, options...)
			},
		})
		_, err := Uninstall(t.Context(), &kube.Cluster{Client: watched, Version: c.Version}, false, quiet)
		require.NoError(t, err)
		require.Equal(t, []string{"b-x", "b", "made", "default"}, order)
		require.Zero(t, remainingObjects(t, c))
	})
}

// weft-controller deletes what it made by itself, right before the uninstall
// does: that is fine.
func TestUninstallIsNotHeldUpByWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := released(t, installed(t, v1alpha1.Finalizer), time.Second)
		first := interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			Delete: func(ctx context.Context, plain client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				if _, ok := object.(*v1alpha1.ForeignCluster); ok && object.GetName() == "made" {
					require.NoError(t, plain.Delete(ctx, object))
					require.NoError(t, peering.DropFinalizer(ctx, plain, "made"))
				}
				return plain.Delete(ctx, object, options...)
			},
		})
		left, err := Uninstall(t.Context(), &kube.Cluster{Client: first, Version: c.Version}, false, quiet)
		require.NoError(t, err)
		require.Empty(t, left)
		require.Zero(t, remainingObjects(t, c))
	})
}
