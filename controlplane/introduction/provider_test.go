package introduction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
	"github.com/weft-fabric/weft/controlplane/measure"
)

var errCrash = errors.New("the controller has crashed")

// stage is cluster a's API server, before which controllers come and go.
type stage struct {
	t      *testing.T
	client client.WithWatch
	// The write at crashAt (from 1) is lost or, if applied, the last; the
	// controller's end either way.
	crashAt, writes int
	applied, dead   bool
	said            map[v1alpha1.Identity]channel.Status
	left            bool
	provider        *Provider
	b, c            member
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	s := &stage{t: t, said: map[v1alpha1.Identity]channel.Status{}, b: newMember(t, "b"), c: newMember(t, "c")}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ForeignCluster{}).
		WithObjects(append(objects, &v1alpha1.FabricConfig{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FabricConfigName}})...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, w client.WithWatch, object client.Object, o ...client.CreateOption) error {
				object.SetUID(types.UID(object.GetName()))
				return s.write(func() error { return w.Create(ctx, object, o...) })
			},
			Update: func(ctx context.Context, w client.WithWatch, object client.Object, o ...client.UpdateOption) error {
				return s.write(func() error { return w.Update(ctx, object, o...) })
			},
			Delete: func(ctx context.Context, w client.WithWatch, object client.Object, o ...client.DeleteOption) error {
				return s.write(func() error { return w.Delete(ctx, object, o...) })
			},
			SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, object client.Object, o ...client.SubResourceUpdateOption) error {
				return s.write(func() error { return w.SubResource(sub).Update(ctx, object, o...) })
			},
		}).Build()
	s.start()
	return s
}

func (s *stage) write(do func() error) error {
	if s.dead {
		return errCrash
	}
	if s.writes++; s.writes != s.crashAt {
		return do()
	}
	s.dead = true
	if s.applied {
		if err := do(); err != nil {
			return err
		}
	}
	return errCrash
}

// Status implements Channels.
func (s *stage) Status(id v1alpha1.Identity) channel.Status { return s.said[id] }

func (s *stage) start() {
	s.dead = false
	s.provider = &Provider{
		Client: s.client, Self: newMember(s.t, "a").id, Channels: s, View: func() measure.View { return measure.View{} },
		OffDirect: func(string) bool { return s.left }, Again: func(string) {}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// says is what c says over a channel that is up.
func (s *stage) says(list ...channel.Introduction) {
	s.said[s.c.id] = channel.Status{Connected: true, Said: channel.Snapshot{Introductions: append([]channel.Introduction{}, list...)}}
}

// settle takes turns; a controller that crashes is followed by one that has not
// heard c yet.
func (s *stage) settle() {
	s.t.Helper()
	for range 6 {
		_, err := s.provider.Reconcile(s.t.Context(), ctrl.Request{})
		s.look()
		if !s.dead {
			require.NoError(s.t, err)
			continue
		}
		s.start()
		heard := s.said[s.c.id]
		s.said[s.c.id] = channel.Status{}
		_, err = s.provider.Reconcile(s.t.Context(), ctrl.Request{})
		require.NoError(s.t, err)
		s.look()
		s.said[s.c.id] = heard
	}
}

// look requires what must hold after any write.
func (s *stage) look() {
	s.t.Helper()
	fc := s.cluster("b")
	if fc == nil {
		return
	}
	require.False(s.t, fc.Spec.MadeByAdmin(), "it must never look like an admin's")
	if len(fc.Spec.ReachedThrough) > 0 && fc.Spec.Direct() {
		require.NotEmpty(s.t, fc.Status.Introductions, "no tunnel to what had a way before the mode is known")
	}
}

func (s *stage) cluster(name string) *v1alpha1.ForeignCluster {
	s.t.Helper()
	var fc v1alpha1.ForeignCluster
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Name: name}, &fc); err != nil {
		require.NoError(s.t, client.IgnoreNotFound(err))
		return nil
	}
	return &fc
}

// Wherever the controller dies while a cluster is introduced and withdrawn, the
// next one brings it to the same end.
func TestProviderCrashesBetweenAnyTwoWrites(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for _, behindHub := range []bool{false, true} {
			t.Run(fmt.Sprintf("applied %t, behind a hub %t", applied, behindHub), func(t *testing.T) {
				for at, more := 1, true; more; at++ {
					require.Less(t, at, 50)
					more = crashAt(t, at, applied, behindHub)
				}
			})
		}
	}
}

func crashAt(t *testing.T, at int, applied, behindHub bool) (reached bool) {
	t.Helper()
	b, c := newMember(t, "b"), newMember(t, "c")
	hub := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"}}
	hub.Spec = v1alpha1.ForeignClusterSpec{Identity: c.id, Record: c.record, Access: v1alpha1.AccessSpec{Introductions: v1alpha1.IntroductionAllow}}
	objects := []client.Object{hub}
	behind := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b"}}
	behind.Spec = v1alpha1.ForeignClusterSpec{Identity: b.id, Record: b.record, ReachedThrough: []string{"c"}}
	if behindHub {
		objects = append(objects, behind)
	}
	s := newStage(t, objects...)
	s.crashAt, s.applied = at, applied
	in := introduce(b, "ab")
	in.Mode = v1alpha1.ModeRequire
	s.says(in)
	s.settle()
	fc := s.cluster("b")
	require.NotNil(t, fc)
	require.True(t, fc.Spec.Direct())
	require.Equal(t, []string{"c/ab"}, fc.Spec.IntroducedBy)
	require.Len(t, fc.Status.Introductions, 1)
	require.Equal(t, v1alpha1.ModeRequire, fc.Status.Introductions[0].Mode)

	s.says()
	s.settle()
	require.Equal(t, ending, s.cluster("b").Status.Introductions[0].State, "both ends have to leave it")
	s.said[b.id] = channel.Status{Connected: true, Acknowledged: true, Said: channel.Snapshot{OffDirect: channel.Leaving}}
	s.left = true
	s.settle()
	if fc = s.cluster("b"); behindHub {
		require.Equal(t, behind.Spec, fc.Spec)
		require.Empty(t, fc.Status.Introductions)
	} else {
		require.Nil(t, fc)
	}
	return s.writes >= at
}

// A cluster that is being uninstalled meets nobody new.
func TestUninstallingMeetsNobody(t *testing.T) {
	c := newMember(t, "c")
	hub := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"}}
	hub.Spec = v1alpha1.ForeignClusterSpec{Identity: c.id, Record: c.record, Access: v1alpha1.AccessSpec{Introductions: v1alpha1.IntroductionAllow}}
	s := newStage(t, hub)
	config := &v1alpha1.FabricConfig{}
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Name: v1alpha1.FabricConfigName}, config))
	require.NoError(t, s.client.Delete(t.Context(), config))
	s.says(introduce(s.b, "ab"))
	s.settle()
	require.Nil(t, s.cluster("b"))
}

// An introducer that names ever new clusters makes objects slowly.
func TestMakingIsPaced(t *testing.T) {
	c := newMember(t, "c")
	from := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"}}
	from.Spec = v1alpha1.ForeignClusterSpec{Identity: c.id, Record: c.record, Access: v1alpha1.AccessSpec{Introductions: v1alpha1.IntroductionAsk}}
	s := newStage(t, from)
	now := time.Unix(1_800_000_000, 0)
	s.provider.Now = func() time.Time { return now }
	known := map[string]bool{}
	for round := range 10 {
		var list []channel.Introduction
		for i := range channel.MaxIntroductions {
			list = append(list, introduce(newMember(t, fmt.Sprintf("x%d-%d", round, i)), fmt.Sprintf("x%d", i)))
		}
		s.says(list...)
		_, err := s.provider.Reconcile(t.Context(), ctrl.Request{})
		require.NoError(t, err)
		var clusters v1alpha1.ForeignClusterList
		require.NoError(t, s.client.List(t.Context(), &clusters))
		for i := range clusters.Items {
			known[clusters.Items[i].Name] = true
		}
		require.LessOrEqual(t, len(clusters.Items), channel.MaxIntroductions+1)
		now = now.Add(changeEvery)
	}
	require.LessOrEqual(t, len(known), channel.MaxIntroductions+2)
	now = now.Add(time.Minute)
	_, err := s.provider.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	require.NotNil(t, s.cluster("x9-0"), "what waited is made later")
}
