package introduction

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/agent"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/controlplane/channel"
)

func path(via int32, state v1alpha1.PathState, rtt int64, active bool) agent.Path {
	p := agent.Path{Cluster: "b", ClusterIndex: 2, ViaIndex: via, Active: active}
	p.State, p.RTTMicroseconds, p.LossPermille = state, rtt, 10
	return p
}

func TestFigures(t *testing.T) {
	neighbor := &v1alpha1.Neighbor{}
	neighbor.Name, neighbor.Spec.ClusterIndex, neighbor.Spec.MTU = "b", 2, 1300
	neighbor.Spec.Networks = []v1alpha1.ViewNetwork{{Kind: v1alpha1.NetworkNode, Local: "100.64.0.0/20"}, {Kind: v1alpha1.NetworkPod, Local: "100.70.0.0/16"}}
	config := &v1alpha1.FabricConfig{}
	config.Status.Networks = []v1alpha1.OwnNetwork{{Kind: v1alpha1.NetworkPod}}
	up, down := v1alpha1.PathUp, v1alpha1.PathDown
	for name, c := range map[string]struct {
		paths  []agent.Path
		active string
		direct bool
		rtts   [2]int64
	}{
		"nothing measured":         {nil, channel.PathNone, false, [2]int64{}},
		"direct":                   {[]agent.Path{path(2, up, 20, true), path(3, up, 80, false)}, channel.PathDirect, true, [2]int64{20, 80}},
		"fallen back":              {[]agent.Path{path(2, down, 20, false), path(3, up, 80, true)}, channel.PathHub, false, [2]int64{0, 80}},
		"all dead, the last stays": {[]agent.Path{path(2, down, 20, true)}, channel.PathNone, false, [2]int64{}},
		"one gateway of two moved": {[]agent.Path{path(2, up, 25, true), path(2, up, 20, true), path(3, up, 80, true)}, channel.PathHub, true, [2]int64{20, 80}},
	} {
		t.Run(name, func(t *testing.T) {
			other := path(2, up, 1, true)
			other.Cluster, other.ClusterIndex = "c", 3
			f := figuresOf(neighbor, config, append(c.paths, other), 1440)
			require.Equal(t, c.active, f.active)
			require.Equal(t, c.direct, f.directUp)
			require.Equal(t, c.rtts, [2]int64{f.directRTT, f.hubRTT})
			require.EqualValues(t, "100.70.0.0/16", f.remapped)
			require.EqualValues(t, 1300, f.mtu)
		})
	}
}

// Figures alone are told seldom, everything else at once.
func TestReportsArePaced(t *testing.T) {
	now := time.Unix(1e9, 0)
	first := channel.Report{UID: "1", State: string(accepted), ActivePath: channel.PathHub, HubRTT: 80}
	out, memory := pacedReports([]channel.Report{first}, nil, now)
	require.True(t, out[0].Since.Equal(now))
	jitter := first
	jitter.HubRTT = 81
	out, memory = pacedReports([]channel.Report{jitter}, memory, now.Add(figuresEvery-time.Second))
	require.EqualValues(t, 80, out[0].HubRTT)
	out, memory = pacedReports([]channel.Report{jitter}, memory, now.Add(figuresEvery))
	require.EqualValues(t, 81, out[0].HubRTT)
	require.True(t, out[0].Since.Equal(now))
	moved := jitter
	moved.ActivePath = channel.PathDirect
	out, _ = pacedReports([]channel.Report{moved}, memory, now.Add(figuresEvery+time.Second))
	require.Equal(t, channel.PathDirect, out[0].ActivePath)
	require.True(t, out[0].Since.Equal(now.Add(figuresEvery+time.Second)))
}

// An acceptance of Require is told once hubs are closed, and not taken back
// while the agents are busy with something else.
func TestRequireIsToldOnceInForce(t *testing.T) {
	w := newWorld(t)
	in := introduce(w.b, "ab")
	in.Mode = v1alpha1.ModeRequire
	w.says("c", in)
	w.turn()
	told := func(closed bool, last map[string]told) []channel.Report {
		measured := func(string) figures { return figures{closed: closed} }
		return reportsTo(w.introducers["c"], nil, []v1alpha1.ForeignCluster{*w.clusters["b"]}, measured, last)
	}
	require.Empty(t, told(false, nil))
	out, memory := pacedReports(told(true, nil), nil, w.now)
	require.Equal(t, string(accepted), out[0].State)
	require.Len(t, told(false, memory), 1)
}

// What an introducer is told, and what the local admin sees of it.
func TestReportsAndCondition(t *testing.T) {
	w := newWorld(t)
	altered := introduce(w.d, "cd")
	altered.Record += "x"
	w.says("c", introduce(w.b, "ab"), altered)
	decisions, _ := w.turn()
	from := decisions[0].from
	clusters := []v1alpha1.ForeignCluster{*w.clusters["b"], *w.clusters["c"]}
	measured := func(string) figures { return figures{active: channel.PathNone} }
	reports := reportsTo(from, decisions, clusters, measured, nil)
	require.Equal(t, []string{string(accepted), channel.ReportInvalidRecord}, []string{reports[0].State, reports[1].State})
	stateIntroductions(&clusters[1], decisions, reports)
	c := meta.FindStatusCondition(clusters[1].Status.Conditions, v1alpha1.ConditionIntroductions)
	require.Equal(t, reasonNotAllTaken, c.Reason)
	require.Contains(t, c.Message, "ab (cluster b): Accepted; cd: InvalidRecord, ")

	// Withdrawn: reported until it has ended, no longer in the condition.
	w.says("c")
	decisions, _ = w.turn()
	reports = reportsTo(w.introducers["c"], decisions, []v1alpha1.ForeignCluster{*w.clusters["b"]}, measured, nil)
	require.Len(t, reports, 1)
	require.Equal(t, string(ending), reports[0].State)
	stateIntroductions(&clusters[1], decisions, reports)
	require.Nil(t, meta.FindStatusCondition(clusters[1].Status.Conditions, v1alpha1.ConditionIntroductions))
}

// However much an introducer says, the answer stays within its bounds.
func TestReportsAreBounded(t *testing.T) {
	w := newWorld(t)
	var list []channel.Introduction
	for i := range channel.MaxIntroductions {
		list = append(list, introduce(w.b, fmt.Sprintf("n%d", i)))
	}
	w.says("c", list...)
	w.turn()
	list = nil
	for i := range channel.MaxIntroductions {
		list = append(list, introduce(w.b, fmt.Sprintf("m%d", i)))
	}
	w.says("c", list...)
	decisions, _ := w.turn()
	require.Len(t, w.clusters["b"].Spec.IntroducedBy, maxEntries)
	measured := func(string) figures { return figures{} }
	require.LessOrEqual(t, len(reportsTo(w.introducers["c"], decisions, []v1alpha1.ForeignCluster{*w.clusters["b"]}, measured, nil)), channel.MaxReports)
}

func TestPace(t *testing.T) {
	p := newPace()
	now := time.Unix(1e9, 0)
	list := func(n int) []channel.Introduction { return make([]channel.Introduction, n) }
	taken, _ := p.take(nil, now)
	require.Nil(t, taken, "not told")
	for i := range changeBurst {
		taken, wait := p.take(list(i), now)
		require.Len(t, taken, i)
		require.Zero(t, wait)
	}
	taken, wait := p.take(list(50), now)
	require.Len(t, taken, changeBurst-1)
	require.Equal(t, changeEvery, wait)
	taken, _ = p.take(list(51), now.Add(changeEvery))
	require.Len(t, taken, 51, "the newest")
	taken, _ = p.take(nil, now.Add(changeEvery))
	require.Len(t, taken, 51, "what was said is not forgotten")
}

// A gateway whose agent fails still sends as before: the hub is not closed.
func TestClosedOnAllGateways(t *testing.T) {
	n := &v1alpha1.Neighbor{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "1", Generation: 2}}
	n.Spec.Paths = v1alpha1.PathDirectOnly
	node := func(name string, gateway int32, generation int64, ready metav1.ConditionStatus, lanes int) v1alpha1.FabricNode {
		out := v1alpha1.FabricNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		out.Spec.GatewayID = gateway
		out.Status.Applied = []v1alpha1.AppliedNeighbor{{Name: "b", UID: "1", Generation: generation}}
		out.Status.Lanes = make([]v1alpha1.LaneStatus, lanes)
		out.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
		return out
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	for name, c := range map[string]struct {
		other  v1alpha1.FabricNode
		closed bool
	}{
		"in place":                  {node("two", 2, 2, yes, 1), true},
		"behind":                    {node("two", 2, 1, yes, 1), false},
		"behind, its agent fails":   {node("two", 2, 1, no, 1), false},
		"behind, its node is dead":  {node("dead", 2, 1, yes, 1), true},
		"no lane yet":               {node("two", 2, 0, no, 0), true},
		"behind, but no gateway":    {node("two", 0, 1, yes, 1), true},
		"in place, its agent fails": {node("two", 2, 2, no, 1), true},
	} {
		s := &scene{nodes: []v1alpha1.FabricNode{node("one", 1, 2, yes, 1), c.other}, alive: map[string]bool{"one": true, "two": true}}
		require.Equal(t, c.closed, s.closed(n), name)
	}
	n.Spec.Paths = v1alpha1.PathAny
	require.False(t, (&scene{}).closed(n))
}
