package controlplane

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

var errCrash = errors.New("the controller has crashed")

// crash ends a controller at one of its writes: before it reaches the API server
// or, if applied, after. Until it is healed nothing is written any more.
type crash struct {
	at, writes int
	applied    bool
	dead       bool
}

func (c *crash) write(object client.Object, do func() error) error {
	if _, agents := object.(*v1alpha1.FabricNode); agents {
		return do() // most of these are the agents'
	}
	if c.dead {
		return errCrash
	}
	c.writes++
	if c.writes != c.at {
		return do()
	}
	c.dead = true
	if c.applied {
		if err := do(); err != nil {
			return err
		}
	}
	return errCrash
}

func (c *crash) wrap(inner client.WithWatch) client.WithWatch {
	return interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, object client.Object, o ...client.CreateOption) error {
			return c.write(object, func() error { return w.Create(ctx, object, o...) })
		},
		Update: func(ctx context.Context, w client.WithWatch, object client.Object, o ...client.UpdateOption) error {
			return c.write(object, func() error { return w.Update(ctx, object, o...) })
		},
		Delete: func(ctx context.Context, w client.WithWatch, object client.Object, o ...client.DeleteOption) error {
			return c.write(object, func() error { return w.Delete(ctx, object, o...) })
		},
		SubResourceUpdate: func(ctx context.Context, w client.Client, sub string, object client.Object, o ...client.SubResourceUpdateOption) error {
			return c.write(object, func() error { return w.SubResource(sub).Update(ctx, object, o...) })
		},
	})
}

// crashingTurn is a turn of a controller that may crash, and is then started
// anew.
func (s *side) crashingTurn(c *crash) {
	s.t.Helper()
	reconcile := func(r interface {
		Reconcile(context.Context, ctrl.Request) (ctrl.Result, error)
	}, name string) {
		if _, err := r.Reconcile(s.t.Context(), requestFor(name)); !c.dead {
			require.NoError(s.t, err)
		}
	}
	reconcile(s.nodes, v1alpha1.FabricConfigName)
	reconcile(s.fabric, v1alpha1.FabricConfigName)
	reconcile(s.peers, "b")
	if c.dead {
		c.dead = false
		s.restart()
	}
	s.agents()
}

// Wherever the controller dies while it peers and unpeers, the next one brings
// it to the same end: one claim a need, no two overlapping, nothing left over.
func TestCrashBetweenAnyTwoWrites(t *testing.T) {
	for name, applied := range map[string]bool{"lost": false, "applied": true} {
		t.Run("the write is "+name, func(t *testing.T) {
			t.Parallel()
			crashEverywhere(t, applied)
		})
	}
}

func crashEverywhere(t *testing.T, applied bool) {
	t.Helper()
	for at, more := 1, true; more; at++ {
		require.Less(t, at, 100)
		a, b := readyPair(t)
		a.create(a.foreign(b))
		b.create(b.foreign(a))
		c := &crash{at: at, applied: applied}
		plain := a.client
		a.client = c.wrap(plain)
		a.restart()
		through := func(what string, ok func() bool) {
			t.Helper()
			for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
				require.True(t, time.Now().Before(deadline), "write %d, applied %t: never %s; %s", at, applied, what, a.condition("b", v1alpha1.ConditionConnected))
				a.crashingTurn(c)
				b.turn()
			}
		}
		through("connected", bothConnected(a, b))
		claims := claimsOf(t, a)
		neighbor := a.neighbor("b")
		require.Len(t, claims, 3, "the node network and two views")
		for _, n := range neighbor.Spec.Networks {
			require.Equal(t, n.Local, claims[n.Name+string(n.Original)].Spec.Prefix)
		}
		require.NoError(t, plain.Delete(t.Context(), &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
		through("unpeered", func() bool { return a.condition("b", v1alpha1.ConditionRecordValid) == "" && a.neighbor("b") == nil })
		require.Equal(t, claims, claimsOf(t, a), "claims outlive the peering")
		more = c.writes >= at
		a.stop()
		b.stop()
	}
}

// claimsOf a side by need; no two of them overlap or serve one need.
func claimsOf(t *testing.T, s *side) map[string]v1alpha1.PrefixClaim {
	t.Helper()
	var list v1alpha1.PrefixClaimList
	require.NoError(t, s.client.List(t.Context(), &list))
	claims := map[string]v1alpha1.PrefixClaim{}
	var seen []netip.Prefix
	for _, claim := range list.Items {
		p := netip.MustParsePrefix(string(claim.Spec.Prefix))
		for _, other := range seen {
			require.False(t, other.Overlaps(p), "%s and %s", other, p)
		}
		seen = append(seen, p)
		key := claim.Spec.Network + claim.Spec.CIDR
		require.NotContains(t, claims, key)
		claims[key] = claim
	}
	return claims
}
