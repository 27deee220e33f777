package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// throughHub adds a path through hub c to the well cluster b.
func throughHub(in *Input) *v1alpha1.PathStatus {
	paths := &in.Clusters[0].Status.Paths
	*paths = append(*paths, v1alpha1.PathStatus{
		Via: "c", Gateway: 1, RemoteGateway: 2, State: v1alpha1.PathUp, RTTMicroseconds: 80500,
		Reason: v1alpha1.PathReasonSlower, Since: metav1.NewTime(now.Add(-time.Hour)),
	})
	return &(*paths)[1]
}

func TestStatusShowsEachPath(t *testing.T) {
	in := well(t)
	throughHub(&in)
	in.Clusters[0].Spec.IntroducedBy, in.Clusters[0].Spec.ReachedThrough = []string{"c/a-b"}, []string{"c"}
	r := Make(in)
	require.True(t, r.Healthy, "%+v", r.Problems)
	var text strings.Builder
	r.Text(&text)
	require.Regexp(t, `(?m)^b +yes +All +introduced by c/a-b; through c +pods 10\.244\.0\.0/16 as 100\.70\.0\.0/16$`, text.String())
	require.Regexp(t, `(?m)^b +direct +1-1 +Up \(in use\) +20\.25 ms +0\.0 % +1m30s +direct, and no hub is faster by enough$`, text.String())
	require.Regexp(t, `(?m)^ +via c +1-2 +Up +80\.50 ms +0\.0 % +1h0m0s +not faster by enough than the one in use$`, text.String())

	data, err := json.Marshal(r.Clusters[0].Paths)
	require.NoError(t, err)
	require.JSONEq(t, `[
		{"via": "b", "direct": true, "gateway": 1, "remoteGateway": 1, "state": "Up", "active": true, "reason": "Direct",
		 "why": "direct, and no hub is faster by enough", "rttMilliseconds": 20.25, "lossPercent": 0, "sinceSeconds": 90},
		{"via": "c", "direct": false, "gateway": 1, "remoteGateway": 2, "state": "Up", "active": false, "reason": "Slower",
		 "why": "not faster by enough than the one in use", "rttMilliseconds": 80.5, "lossPercent": 0, "sinceSeconds": 3600}]`, string(data))
}

// Where no hub leads to a cluster, nothing is said of one.
func TestDirectPathsWithoutHub(t *testing.T) {
	in := well(t)
	fcl := &in.Clusters[0]
	whys := func() (all []string) {
		for _, p := range Make(in).Clusters[0].Paths {
			all = append(all, p.Why)
		}
		return all
	}
	require.Equal(t, []string{"direct, and the only path"}, whys())
	second := fcl.Status.Paths[0]
	second.RemoteGateway, second.Active, second.Reason = 2, false, v1alpha1.PathReasonSlower
	fcl.Status.Paths = append(fcl.Status.Paths, second)
	require.Equal(t, []string{"direct, as are all paths", "not faster by enough than the one in use"}, whys())
	throughHub(&in).RemoteGateway = 3
	require.Equal(t, "direct, and no hub is faster by enough", whys()[0])
}

// Every reason that an agent may give reads as words, not as the constant.
func TestEveryPathReasonHasWords(t *testing.T) {
	seen := map[string]v1alpha1.PathReason{}
	for _, reason := range []v1alpha1.PathReason{
		v1alpha1.PathReasonDirect, v1alpha1.PathReasonFastest, v1alpha1.PathReasonFallback, v1alpha1.PathReasonHeld,
		v1alpha1.PathReasonLast, v1alpha1.PathReasonSlower, v1alpha1.PathReasonDown, v1alpha1.PathReasonUnproven,
		v1alpha1.PathReasonWaiting, v1alpha1.PathReasonExcluded,
	} {
		words := why(reason, true)
		require.Contains(t, words, " ", reason)
		require.Empty(t, seen[words], "%s reads like another", reason)
		seen[words] = reason
	}
	require.NotEqual(t, why(v1alpha1.PathReasonExcluded, true), why(v1alpha1.PathReasonExcluded, false))
	require.Equal(t, "Later", why("Later", true), "of a later release")
	require.Empty(t, why("", true), "of an earlier one")
}

func TestPathProblems(t *testing.T) {
	for name, c := range map[string]struct {
		change           func(*Input)
		object, what, do string
	}{
		"direct link down, hub carries": {func(in *Input) {
			hub := throughHub(in)
			hub.Active, hub.Reason = true, v1alpha1.PathReasonFallback
			direct := &in.Clusters[0].Status.Paths[0]
			direct.State, direct.Active, direct.Reason = v1alpha1.PathDown, false, v1alpha1.PathReasonDown
		}, "cluster b, link 1-1", "probes are not answered; traffic goes via c", "UDP 198.51.100.7 port 51847"},
		"direct link of two behind NAT": {func(in *Input) {
			in.Clusters[0].Spec.Record, in.Config.Status.Record = record(t), record(t)
			in.Clusters[0].Status.Paths[0].State = v1alpha1.PathDown
		}, "cluster b, link 1-1", "probes are not answered", "neither side publishes an endpoint"},
		"hub path down": {func(in *Input) { throughHub(in).State = v1alpha1.PathDown },
			"cluster b, via c link 1-2", "probes are not answered; traffic takes link 1-1", "see that c is connected, and that it still forwards"},
		"hub path loses": {func(in *Input) { throughHub(in).LossPermille = 50 },
			"cluster b, via c link 1-2", "5.0 % of the probes are lost", "on both sides of c"},
		"hub alone, not connected": {func(in *Input) {
			in.Clusters[0].Spec.ReachedThrough = []string{"c"}
			in.Clusters[0].Status.Conditions = append(conditions(metav1.ConditionTrue, "Ok", "", "RecordValid", "ChannelReady", "NetworksReady"),
				conditions(metav1.ConditionFalse, "LinksDown", "no path is up", "Connected")...)
		}, "cluster b", "not Connected: no path is up", "see that c is connected"},
		"waits for approval": {func(in *Input) {
			no := false
			in.Clusters[0].Spec.Accepted, in.Clusters[0].Spec.IntroducedBy = &no, []string{"c/a-b"}
			in.Clusters[0].Status = v1alpha1.ForeignClusterStatus{}
		}, "cluster b", "not Accepted: it was introduced by c/a-b and waits for an admin", "weftctl access b --accept"},
		"waits for approval, reached through a hub": {func(in *Input) {
			no := false
			spec := &in.Clusters[0].Spec
			spec.Accepted, spec.IntroducedBy, spec.ReachedThrough = &no, []string{"c/a-b"}, []string{"c"}
		}, "cluster b", "waits for an admin", "weftctl access b --accept"},
	} {
		t.Run(name, func(t *testing.T) {
			in := well(t)
			c.change(&in)
			r := Make(in)
			require.Len(t, r.Problems, 1)
			require.Equal(t, c.object, r.Problems[0].Object)
			require.Contains(t, r.Problems[0].What, c.what)
			require.Contains(t, r.Problems[0].Do, c.do)
		})
	}
}

// Require forbids the hub, and an ending link carries nothing: that they are
// down is no problem.
func TestExcludedPathsAreNoProblem(t *testing.T) {
	in := well(t)
	hub := throughHub(&in)
	hub.State, hub.Reason = v1alpha1.PathDown, v1alpha1.PathReasonExcluded
	require.Empty(t, Make(in).Problems)
}
