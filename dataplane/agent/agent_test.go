package agent

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/dataplane/path"
	"github.com/weft-fabric/weft/dataplane/plan"
	"github.com/weft-fabric/weft/dataplane/source"
)

// Objects in: the plan is applied, then its words, then the status says so.
func TestAppliesThenPublishes(t *testing.T) {
	b := start(t, snapshot())
	p := b.nextPlan()
	require.NotNil(t, p.Overlay)
	require.Len(t, p.Maps.Rows4, 2)
	s := b.statusWith(reasonApplied)
	require.Equal(t, metav1.ConditionTrue, s.Conditions[0].Status)
	require.Equal(t, []v1alpha1.AppliedNeighbor{{Name: "b", UID: "uid-b", Generation: 2}}, s.Applied)
	require.Equal(t, []v1alpha1.CIDR{"10.244.1.5/32"}, s.PodPrefixes)
	require.Equal(t, "192.168.0.1", s.UnderlayAddress)
	require.Equal(t, "c0ffee", s.AgentCertificate)
	require.Equal(t, []v1alpha1.LaneStatus{{Name: "weft0", Port: 51847, PublicKey: "BwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", Kernel: true}}, s.Lanes)
	require.Equal(t, uint32(1), b.executor.lastWords().Paths[5])
	require.NoError(t, b.readiness())
	paths := b.prober.targets()
	require.Len(t, paths, 1)
	require.Equal(t, netip.MustParseAddr("240.9.0.0"), paths[0].Source)
	require.Equal(t, netip.MustParseAddr("240.2.0.0"), paths[0].Destination)
}

// Each kind alone, not synced, keeps the agent from touching anything.
func TestUnsyncedSourceChangesNothing(t *testing.T) {
	for name, unsync := range map[string]func(*source.Snapshot){
		"config":    func(s *source.Snapshot) { s.ConfigSynced, s.Config = false, nil },
		"nodes":     func(s *source.Snapshot) { s.NodesSynced, s.Nodes = false, nil },
		"neighbors": func(s *source.Snapshot) { s.NeighborsSynced, s.Neighbors = false, nil },
		"VNI":       func(s *source.Snapshot) { s.VNISynced, s.VNI = false, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			unsynced := snapshot()
			unsync(&unsynced)
			b := start(t, unsynced)
			b.prober.see(v1alpha1.PathUp)
			b.prober.see(v1alpha1.PathDown) // taken only after the first was handled
			require.ErrorIs(t, b.readiness(), errNotSynced)
			b.source.change(func(s *source.Snapshot) { *s = snapshot() })
			require.NotNil(t, b.nextPlan().Overlay, "the first plan is that of the synced source")
		})
	}
}

// Pods that are not known yet are those last published.
func TestUnsyncedPodsStay(t *testing.T) {
	s := snapshot()
	s.PodsSynced, s.Pods = false, nil
	s.Nodes[0].Status.PodPrefixes = []v1alpha1.CIDR{"10.244.1.9/32"}
	b := start(t, s)
	require.Len(t, b.nextPlan().Maps.Places4, 2)
	require.Equal(t, []v1alpha1.CIDR{"10.244.1.9/32"}, b.statusWith(reasonApplied).PodPrefixes)
	b.source.change(func(s *source.Snapshot) { s.PodsSynced = true })
	require.Len(t, b.nextPlan().Maps.Places4, 1, "synced and empty removes them")
	require.Empty(t, b.statusWith(reasonApplied).PodPrefixes)
}

func TestSyncedEmptyDeletes(t *testing.T) {
	b := start(t, snapshot())
	require.Len(t, b.nextPlan().Lanes[0].Peers, 1)
	b.statusWith(reasonApplied)
	b.source.change(func(s *source.Snapshot) { s.Neighbors = nil })
	require.Empty(t, b.nextPlan().Lanes[0].Peers)
	require.Empty(t, b.statusWith(reasonApplied).Applied)
	require.Empty(t, b.executor.lastWords().Paths)
}

// A change that means nothing to this node applies nothing; a device that
// others changed does.
func TestUnchangedPlanIsNotAppliedAgain(t *testing.T) {
	b := start(t, snapshot())
	b.nextPlan()
	b.statusWith(reasonApplied)
	b.source.change(func(s *source.Snapshot) {
		config := *s.Config
		config.Status.ChannelEndpoint = "10.244.1.9:9443"
		s.Config = &config
	})
	require.Eventually(t, func() bool {
		b.api.mu.Lock()
		defer b.api.mu.Unlock()
		return b.api.state.ChannelEndpoint == "10.244.1.9:9443"
	}, patience, time.Millisecond)
	require.Empty(t, b.executor.applied)
	b.executor.drift <- struct{}{}
	b.nextPlan()
}

// A failed apply keeps what was published as applied, says why, and is tried
// again.
func TestFailedApply(t *testing.T) {
	s := snapshot()
	s.Nodes[0].Status.UnderlayAddress = "192.168.0.1"
	s.Nodes[0].Status.Applied = []v1alpha1.AppliedNeighbor{{Name: "b", UID: "uid-b", Generation: 1}}
	b := start(t, s, func(b *bench) { b.executor.fail = errBroken })
	b.nextPlan()
	status := b.statusWith(reasonApplyFailed)
	require.Equal(t, metav1.ConditionFalse, status.Conditions[0].Status)
	require.Contains(t, status.Conditions[0].Message, errBroken.Error())
	require.Equal(t, int64(1), status.Applied[0].Generation)
	require.ErrorIs(t, b.readiness(), errBroken)
	b.executor.setFail(nil)
	b.nextPlan()
	require.Equal(t, int64(2), b.statusWith(reasonApplied).Applied[0].Generation)
}

// A plan that cannot be applied in full keeps nothing from being maintained:
// silent peers still get their next endpoint.
func TestMaintainsDespiteErrors(t *testing.T) {
	b := start(t, snapshot(), func(b *bench) { b.executor.fail = errBroken })
	b.nextPlan()
	b.statusWith(reasonApplyFailed)
	select {
	case <-b.executor.maintained:
	case <-time.After(2 * maintainInterval):
		require.Fail(t, "nothing was maintained")
	}
}

// A refused item shows in the condition and keeps its Neighbor from being
// reported as applied, while the node stays ready.
func TestRefusedNeighbor(t *testing.T) {
	s := snapshot()
	s.Neighbors[0].Spec.Rows[0].Wire = "9.9.0.0/20"
	b := start(t, s)
	status := b.statusWith(reasonRefused)
	require.Equal(t, metav1.ConditionTrue, status.Conditions[0].Status)
	require.Contains(t, status.Conditions[0].Message, "neighbor b: row Ours of network 2")
	require.Empty(t, status.Applied)
}

// The node tells its facts while it waits for its address.
func TestNodeWithoutAddress(t *testing.T) {
	s := snapshot()
	s.Nodes[0].Spec.FabricAddress = ""
	b := start(t, s)
	status := b.statusWith(reasonWaiting)
	require.Equal(t, "192.168.0.1", status.UnderlayAddress)
	require.Equal(t, metav1.ConditionFalse, status.Conditions[0].Status)
}

// A FabricConfig that is being deleted takes all of Weft along, keys included.
func TestTearDown(t *testing.T) {
	b := start(t, snapshot())
	b.nextPlan()
	b.statusWith(reasonApplied)
	b.source.change(func(s *source.Snapshot) {
		config := *s.Config
		now := metav1.Now()
		config.DeletionTimestamp = &now
		s.Config = &config
	})
	require.Equal(t, plan.Plan{}, b.nextPlan())
	status := b.statusWith(v1alpha1.ReasonTornDown)
	require.Equal(t, metav1.ConditionFalse, status.Conditions[0].Status)
	require.True(t, b.executor.removed)
	require.Empty(t, b.prober.targets())
	require.Error(t, b.readiness())
}

// A FabricConfig that is simply not there removes devices, but no keys.
func TestNoFabricConfig(t *testing.T) {
	s := snapshot()
	s.Config = nil
	b := start(t, s)
	require.Equal(t, plan.Plan{}, b.nextPlan())
	b.statusWith(reasonNoFabricConfig)
	require.False(t, b.executor.removed)
	b.source.change(func(s *source.Snapshot) { *s = snapshot() })
	require.NotNil(t, b.nextPlan().Overlay)
}

// With the API server away, neither plans nor paths wait for it.
func TestServerAway(t *testing.T) {
	b := start(t, snapshot())
	b.nextPlan()
	b.statusWith(reasonApplied)
	b.source.mu.Lock()
	b.source.down = true
	b.source.mu.Unlock()
	for i := range 3 {
		b.source.change(func(s *source.Snapshot) {
			s.Pods = append(s.Pods[:1:1], netip.AddrFrom4([4]byte{10, 244, 1, byte(10 + i)}))
		})
		require.Contains(t, b.nextPlan().Maps.Places4, placeKey(netip.AddrFrom4([4]byte{10, 244, 1, byte(10 + i)})))
	}
	b.prober.see(v1alpha1.PathUp)
	require.Eventually(t, func() bool { return path.HasReach(b.executor.lastWords().Reach, 5) }, patience, time.Millisecond)
}

// A restarted agent takes the words in force over, and changes them only on a
// verdict.
func TestRestartKeepsWords(t *testing.T) {
	previous := plan.Words{Paths: map[uint32]uint32{5: 1}, Choices: map[uint32]uint64{5: path.Pack([]uint8{1})}}
	previous.Reach.Bits[0] = 1 << 5
	b := start(t, snapshot(), func(b *bench) { b.executor.previous = previous })
	b.statusWith(reasonApplied)
	require.Equal(t, previous, b.executor.lastWords())
	b.prober.see(v1alpha1.PathDown)
	require.Eventually(t, func() bool { return !path.HasReach(b.executor.lastWords().Reach, 5) }, patience, time.Millisecond)
	require.Equal(t, previous.Paths, b.executor.lastWords().Paths)
}
