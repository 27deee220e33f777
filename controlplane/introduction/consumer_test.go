package introduction

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

type statuses map[v1alpha1.Identity]channel.Status

func (s statuses) Status(id v1alpha1.Identity) channel.Status { return s[id] }

// A provider that changes its mind all the time makes few writes, and what it
// said last is written in the end.
func TestStatusWritesArePaced(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	connection := &v1alpha1.ForeignClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "ab", UID: "1", Finalizers: []string{v1alpha1.Finalizer}}}
	connection.Spec = v1alpha1.ForeignClusterConnectionSpec{ForeignClusterA: "a", ForeignClusterB: "b", Mode: v1alpha1.ModePrefer}
	objects := []client.Object{connection}
	said := statuses{}
	for _, m := range []member{newMember(t, "a"), newMember(t, "b")} {
		fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
		fc.Spec = v1alpha1.ForeignClusterSpec{Identity: m.id, Record: m.record}
		objects = append(objects, fc)
		said[m.id] = channel.Status{Connected: true, Said: channel.Snapshot{Reports: []channel.Report{{UID: "1", State: string(accepted), ActivePath: channel.PathHub}}}}
	}
	writes := 0
	now := time.Unix(1_800_000_000, 0)
	c := &Consumer{Channels: said, Again: func(string) {}, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(connection).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, object client.Object, o ...client.SubResourceUpdateOption) error {
				writes++
				return w.SubResource(sub).Update(ctx, object, o...)
			},
		}).Build()
	id := newMember(t, "a").id
	var result ctrl.Result
	for i := range 500 {
		report := &said[id].Said.Reports[0]
		report.ActivePath = []string{channel.PathHub, channel.PathNone}[i%2]
		now = now.Add(100 * time.Millisecond)
		var err error
		result, err = c.Reconcile(t.Context(), providerRequest(id))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, writes, writeBurst+11)
	require.Equal(t, writeEvery, result.RequeueAfter)
	now = now.Add(writeEvery)
	_, err := c.Reconcile(t.Context(), providerRequest(id))
	require.NoError(t, err)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(connection), connection))
	require.Equal(t, channel.PathNone, connection.Status.Sides[0].ActivePath)
}
